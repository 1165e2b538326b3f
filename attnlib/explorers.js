// The scripts of the explorers. Python embeds the kit and one section, joined into one line inside one function:
// so every statement ends in a semicolon, and every comment is a line of its own.

/* == kit == */
const el = (tag, attributes, ...children) => {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
};
const say = (text, ...values) => text.replace(/\{(\d)\}/g, (_, i) => values[i]);
const fixed = (x) => x.toFixed(4);
const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// A score of null is a blocked key: its weight is 0, also where all are blocked.
const softmax = (scores, temperature) => {
  const top = Math.max(...scores.filter((s) => s !== null));
  const e = scores.map((s) => (s === null ? 0 : Math.exp((s - top) / temperature)));
  const total = sum(e);
  return e.map((x) => (total ? x / total : 0));
};
const entropy = (weights) => sum(weights.map((w) => (w > 0 ? -w * Math.log(w) : 0)));
const shade = (node, weight) => {
  node.style.background = "#2a78d6" + Math.round(weight * 144).toString(16).padStart(2, "0");
};

// One of `values`, by its index. Calls change(index) whenever it moves.
const slider = (text, values, start, change) => {
  const shown = el("span", {});
  const input = el("input", {type: "range", min: 0, max: values.length - 1, value: start});
  const show = () => {
    shown.textContent = +values[input.value].toFixed(2);
    input.setAttribute("aria-valuetext", shown.textContent);
  };
  input.addEventListener("input", () => {
    show();
    change(+input.value);
  });
  show();
  return el("div", {}, el("label", {}, text, input), shown);
};

// From 1/4 to the root of 512, each the root of 2 times the one before: every root of a d_k is there.
const temperatures = Array.from({length: 14}, (_, i) => 2 ** (i / 2 - 2));
const controls = (root, ...items) => root.querySelector(".scroll").before(el("div", {class: "controls"}, ...items));

// JupyterLab may show one output twice, and may run a script again.
const start = (id, build, data, labels) => {
  for (const root of document.querySelectorAll(`[id="${id}"]`)) {
    if (!root.dataset.on) {
      root.dataset.on = 1;
      build(root, data, labels);
    }
  }
};

/* == attention == */
const attention = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const keys = [...root.querySelectorAll("thead th")].map((th) => th.textContent);
  const buttons = rows.map((row) => el("button", {type: "button"}, row.cells[0].textContent));
  const status = el("p", {role: "status"});
  let chosen = 0;
  let temperature = 1;

  const sentences = (query, weights, scores) => {
    const open = keys.map((key, j) => [key, weights[j], scores[j]]).filter((k) => k[2] !== null);
    if (!open.length) return [say(labels.nothing, query)];
    const best = open.sort((a, b) => b[1] - a[1]).slice(0, 3).map(([key, w]) => `${key} ${fixed(w)}`);
    return [
      say(labels.looks, query, best.join(", ")),
      say(labels.entropy, fixed(entropy(weights)), fixed(Math.log(open.length))),
    ];
  };
  const draw = () => {
    data.scores.forEach((scores, i) => {
      const weights = softmax(scores, temperature);
      scores.forEach((score, j) => {
        if (score === null) return;
        const cell = rows[i].cells[j + 1];
        cell.textContent = weights[j].toFixed(data.digits);
        shade(cell, weights[j]);
      });
      rows[i].className = i === chosen ? "on" : "";
      buttons[i].setAttribute("aria-pressed", i === chosen);
      if (i !== chosen) return;
      const lines = sentences(buttons[i].textContent, weights, scores);
      status.replaceChildren(...lines.map((line) => el("span", {}, line)));
    });
  };

  rows.forEach((row, i) => {
    row.cells[0].replaceChildren(buttons[i]);
    for (const event of ["mouseenter", "focusin", "click"]) {
      row.addEventListener(event, () => {
        chosen = i;
        draw();
      });
    }
  });
  if (data.temperature) {
    controls(root, slider(labels.temperature, temperatures, 4, (i) => {
      temperature = temperatures[i];
      draw();
    }));
  }
  root.append(status);
  draw();
};

/* == scaling == */
const scaling = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");
  const box = el("input", {type: "checkbox", checked: ""});
  const divide = el("span", {});
  let size = data.start;
  let temperature = 1;

  const draw = () => {
    const divisor = Math.sqrt(data.sizes[size]);
    const raw = data.raw.map((row) => row[size]);
    const scores = raw.map((s) => (box.checked ? s / divisor : s));
    const weights = softmax(scores, temperature);
    divide.textContent = say(labels.divide, +divisor.toFixed(2));
    rows.forEach((row, j) => {
      [raw, scores, weights].forEach((column, c) => {
        row.cells[c + 1].textContent = fixed(column[j]);
      });
      row.querySelector("i").style.width = `${100 * weights[j]}%`;
    });
    const passes = sum(weights.map((w) => w * (1 - w)));
    facts[0].textContent = say(labels.nats, fixed(entropy(weights)), fixed(Math.log(rows.length)));
    facts[1].textContent = fixed(Math.max(...weights));
    facts[2].textContent = say(labels.of, fixed(passes), fixed(1 - 1 / rows.length));
  };

  box.addEventListener("change", draw);
  controls(
    root,
    slider(labels.size, data.sizes, size, (i) => {
      size = i;
      draw();
    }),
    el("div", {}, el("label", {}, box, divide)),
    slider(labels.temperature, temperatures, 4, (i) => {
      temperature = temperatures[i];
      draw();
    })
  );
  draw();
};
