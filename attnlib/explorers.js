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

/* == kernel == */
const kernel = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");
  const [curve, here] = root.querySelectorAll("path");
  const {keys, values, queries, widths} = data;
  const low = Math.min(...values);
  const high = Math.max(...values);
  const dots = root.querySelectorAll("circle");
  const x = (q) => (50 + (280 * (q - queries[0])) / (queries.at(-1) - queries[0])).toFixed(1);
  const y = (v) => (120 - (100 * (v - low)) / (high - low || 1)).toFixed(1);
  const near = (q) => keys.map((k) => -((q - k) ** 2) / 2);
  const weigh = (q) => softmax(near(q), widths[data.width] ** 2);
  const mix = (weights) => sum(weights.map((w, i) => w * values[i]));

  const draw = () => {
    const q = queries[data.query];
    const weights = weigh(q);
    rows.forEach((row, i) => {
      row.cells[3].textContent = fixed(weights[i]);
      row.querySelector("i").style.width = `${100 * weights[i]}%`;
      dots[i].setAttribute("r", (3 + 11 * weights[i] ** 0.5).toFixed(1));
    });
    curve.setAttribute("d", "M" + queries.map((a) => `${x(a)} ${y(mix(weigh(a)))}`).join("L"));
    here.setAttribute("d", `M${x(q)} 130V${y(mix(weights))}H50`);
    facts[0].textContent = fixed(mix(weights));
    facts[1].textContent = fixed(values[weights.indexOf(Math.max(...weights))]);
    facts[2].textContent = fixed(sum(near(q).map((s) => Math.exp(s / widths[data.width] ** 2))));
  };

  controls(
    root,
    slider(labels.query, queries, data.query, (i) => {
      data.query = i;
      draw();
    }),
    slider(labels.width, widths, data.width, (i) => {
      data.width = i;
      draw();
    })
  );
  draw();
};

/* == attention alignment projection layers == */
// Rows to choose from, by mouse, finger or keyboard. Calls change(index); choose(index) does the same.
const chooser = (root, change) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const names = rows.map((row) => row.cells[0].textContent);
  const buttons = names.map((name) => el("button", {type: "button"}, name));
  const choose = (chosen) => {
    rows.forEach((row, i) => {
      row.className = i === chosen ? "on" : "";
      buttons[i].setAttribute("aria-pressed", i === chosen);
    });
    change(chosen);
  };
  rows.forEach((row, i) => {
    row.cells[0].replaceChildren(buttons[i]);
    for (const event of ["mouseenter", "focusin", "click"]) row.addEventListener(event, () => choose(i));
  });
  return {rows, names, choose};
};
const columns = (root) => [...root.querySelectorAll("thead th")].map((th) => th.textContent);
const best = (keys) => keys.sort((a, b) => b[1] - a[1]).slice(0, 3).map(([key, w]) => `${key} ${fixed(w)}`).join(", ");
const lines = (texts) => texts.map((text) => el("span", {}, text));

/* == attention == */
const attention = (root, data, labels) => {
  const keys = columns(root);
  const status = el("p", {role: "status"});
  let chosen = 0;
  let temperature = 1;

  const sentences = (query, weights, scores) => {
    const open = keys.map((key, j) => [key, weights[j], scores[j]]).filter((k) => k[2] !== null);
    if (!open.length) return [say(labels.nothing, query)];
    return [
      say(labels.looks, query, best(open)),
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
      if (i === chosen) status.replaceChildren(...lines(sentences(names[i], weights, scores)));
    });
  };
  const {rows, names, choose} = chooser(root, (i) => {
    chosen = i;
    draw();
  });

  if (data.temperature) {
    controls(root, slider(labels.temperature, temperatures, 4, (i) => {
      temperature = temperatures[i];
      draw();
    }));
  }
  root.append(status);
  choose(0);
};

/* == alignment == */
const alignment = (root, data, labels) => {
  const source = columns(root);
  const read = el("div", {});
  const written = el("div", {});
  const status = el("p", {role: "status"});
  let chosen = 0;

  const {rows, names, choose} = chooser(root, (i) => {
    const gold = data.gold?.[i];
    chosen = i;
    read.replaceChildren(...source.flatMap((word, j) => {
      const style = rows[i].cells[j + 1].getAttribute("style");
      return [el("span", {style}, word), " "];
    }));
    written.replaceChildren(names.slice(0, i).join(" "), " ", el("u", {}, names[i]));
    const said = [say(labels.looks, names[i], best(source.map((word, j) => [word, data.weights[i][j]])))];
    if (gold) said.push(say(labels.gold, gold.map((j) => source[j]).join(", ") || "-"));
    status.replaceChildren(...lines(said));
  });
  const step = (text, by) => {
    const button = el("button", {type: "button"}, text);
    button.addEventListener("click", () => choose((chosen + by + names.length) % names.length));
    return button;
  };

  controls(root, step(labels.back, -1), step(labels.next, 1));
  root.append(el("div", {class: "words"}, labels.read, read, labels.written, written), status);
  choose(0);
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

/* == translations == */
const translations = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");

  const draw = (sentence) => {
    const lines = data.sentences[sentence];
    lines.forEach(([line, wrong], i) => {
      const words = line.map((word) => data.words[word]);
      const nodes = words.flatMap((word, k) => [" ", wrong.includes(k) ? el("mark", {}, word) : word]);
      rows[i].cells[1].replaceChildren(...nodes.slice(1));
      if (i > 1) facts[i - 2].textContent = say(labels.right, line.length - wrong.length, lines[1][0].length);
    });
  };

  controls(root, slider(labels.length, data.lengths, data.start, draw));
  draw(data.start);
};

/* == mask == */
const mask = (root, data, labels) => {
  const head = root.querySelector("thead tr");
  const body = root.querySelector("tbody");
  const facts = root.querySelectorAll("dd");
  const on = {causal: data.causal, end: true, left: false};
  const range = (n, first = 0) => Array.from({length: n}, (_, i) => i + first);

  const draw = () => {
    const {q, k} = data;
    const real = data.length;
    const dead = [];
    let seen = 0;
    head.replaceChildren(el("td", {}), ...range(k).map((j) => el("th", {scope: "col"}, `k${j}`)));
    body.replaceChildren(...range(q).map((i) => {
      const before = seen;
      const cells = range(k).map((j) => {
        const pad = on.left ? j < k - real : j >= real;
        const later = on.causal && j > i + (on.end ? k - q : 0);
        if (pad || later) return el("td", {}, pad && later ? labels.both : pad ? labels.pad : labels.later);
        const cell = el("td", {}, "1");
        shade(cell, 0.5);
        seen += 1;
        return cell;
      });
      if (seen === before) dead.push(`q${i}`);
      return el("tr", {}, el("th", {scope: "row"}, `q${i}`), ...cells);
    }));
    facts[0].textContent = say(labels.of, seen, q * k);
    facts[1].textContent = dead.join(", ") || labels.none;
  };
  const size = (text, name, first) => {
    const values = range(data.largest + 1 - first, first);
    return slider(text, values, data[name] - first, (i) => {
      data[name] = values[i];
      draw();
    });
  };
  const box = (text, name) => {
    const input = el("input", {type: "checkbox"});
    input.checked = on[name];
    input.addEventListener("change", () => {
      on[name] = input.checked;
      draw();
    });
    return el("div", {}, el("label", {}, input, text));
  };

  controls(
    root,
    size(labels.queries, "q", 1),
    size(labels.keys, "k", 1),
    size(labels.length, "length", 0),
    box(labels.causal, "causal"),
    box(labels.end, "end"),
    box(labels.left, "left")
  );
  draw();
};

/* == projection == */
const projection = (root, data, labels) => {
  const facts = root.querySelectorAll("dd");
  const vector = (numbers) => numbers.join(" ");
  let chosen = data.chosen;
  let asks = data.asks;

  const draw = () => {
    const [q, k] = data.pairs[chosen];
    const scores = k.map((key) => sum(key.map((x, n) => x * q[asks][n])));
    const weights = softmax(scores, 1);
    rows.forEach((row, j) => {
      [vector(k[j]), fixed(scores[j] + 0), fixed(weights[j])].forEach((text, c) => {
        row.cells[c + 1].textContent = text;
      });
      row.querySelector("i").style.width = `${100 * weights[j]}%`;
    });
    facts[0].textContent = names[asks];
    facts[1].textContent = vector(q[asks]);
    facts[2].textContent = best(names.map((name, j) => [name, weights[j]]));
    buttons.forEach((button, i) => button.setAttribute("aria-pressed", i === chosen));
  };
  const buttons = data.names.map((name, i) => {
    const button = el("button", {type: "button"}, name);
    button.addEventListener("click", () => {
      chosen = i;
      draw();
    });
    return button;
  });
  const {rows, names, choose} = chooser(root, (i) => {
    asks = i;
    draw();
  });

  controls(root, el("div", {role: "group", "aria-label": labels.projections}, labels.projections, ...buttons));
  choose(asks);
};

/* == cache == */
const cache = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");
  const {values, places, cards} = data;
  const sliders = {};
  const of = (name) => values[name][places[name]];
  const bytes = (kept) => 2 * of("layers") * kept * of("d_head") * of("size");

  const draw = () => {
    const groups = of("groups");
    [of("heads"), groups, 1].forEach((kept, i) => {
      const memory = (bytes(kept) * of("length") * of("batch")) / 2 ** 30;
      rows[i].cells[1].textContent = kept;
      rows[i].cells[2].textContent = memory.toFixed(3);
      rows[i].querySelector("i").style.width = `${100 * Math.min(1, memory / cards[1])}%`;
    });
    root.querySelector("caption").textContent = say(labels.caption, of("heads"), cards[1]);
    const token = bytes(groups);
    const room = cards.map((card) => Math.floor((card * 2 ** 30) / (token * of("batch"))));
    [token, ...room, of("heads") / groups].forEach((fact, i) => {
      facts[i].textContent = fact.toLocaleString("en");
    });
  };
  // There are never more key-value heads than query heads: one slider pushes the other.
  const push = (name, place) => {
    const input = sliders[name].querySelector("input");
    input.value = place;
    input.dispatchEvent(new Event("input"));
  };

  const names = {
    heads: labels.heads,
    groups: labels.groups,
    d_head: labels.d_head,
    layers: labels.layers,
    length: labels.length,
    batch: labels.batch,
    size: labels.size,
  };
  for (const [name, text] of Object.entries(names)) {
    sliders[name] = slider(text, values[name], places[name], (place) => {
      places[name] = place;
      if (places.groups > places.heads) push(name === "heads" ? "groups" : "heads", place);
      draw();
    });
  }
  controls(root, ...Object.values(sliders));
  draw();
};

/* == costs == */
const costs = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");
  const counts = ["", " k", " M", " G", " T", " P", " E"];
  const bytes = [" B", " KiB", " MiB", " GiB", " TiB", " PiB"];

  const short = (x, base, units) => {
    let size = 0;
    for (; x >= base && size < units.length - 1; size++) x /= base;
    const digits = size === 0 || x >= 100 ? 0 : x >= 10 ? 1 : 2;
    return (Math.floor(x * 10 ** digits + 0.5) / 10 ** digits).toFixed(digits) + units[size];
  };
  // Layers until the last output sees the first of n tokens.
  const reach = (n, grow) => {
    let layers = 0;
    for (let seen = 1; seen < n; layers++) seen = grow(seen);
    return layers;
  };

  const draw = () => {
    const [n, d, k] = [data.lengths, data.widths, data.kernels].map((numbers, i) => numbers[data.at[i]]);
    const layer = 4 * n * d * d + 2 * n * n * d;
    const table = [
      [layer, 1, 1, 4 * (5 * n * d + 2 * n * n)],
      [layer, 1, 1, 4 * (5 * n * d + n)],
      [6 * n * d * d, n, n - 1, 4 * n * d],
      [k * n * d * d, 1, reach(n, (seen) => seen + k - 1), 4 * n * d],
    ];
    rows.forEach((row, i) => table[i].forEach((x, c) => {
      const cell = row.cells[c + 1];
      cell.firstChild.data = c < 3 ? short(x, 1000, counts) : short(x, 1024, bytes);
      cell.querySelector("i").style.width = `${(100 * Math.log(x)) / Math.log(Math.max(data.most[c], 2))}%`;
    }));
    facts[0].textContent = say(labels.percent, (Math.floor((1000 * n) / (n + 2 * d) + 0.5) / 10).toFixed(1));
    facts[1].textContent = reach(n, (seen) => seen * k);
  };
  const move = (i) => (place) => {
    data.at[i] = place;
    draw();
  };

  controls(
    root,
    slider(labels.length, data.lengths, data.at[0], move(0)),
    slider(labels.width, data.widths, data.at[1], move(1)),
    slider(labels.kernel, data.kernels, data.at[2], move(2))
  );
  draw();
};

/* == heads == */
const heads = (root, data, labels) => {
  const rows = [...root.querySelectorAll("tbody tr")];
  const facts = root.querySelectorAll("dd");
  const askers = [...root.querySelectorAll("thead th")];
  const tokens = askers.map((th) => th.textContent);
  const buttons = tokens.map((token) => el("button", {type: "button"}, token));
  const names = rows.slice(data.weights.length).map((row) => row.cells[0].textContent);
  const boxes = data.weights.map(() => el("input", {type: "checkbox", checked: ""}));
  const status = el("p", {role: "status"});
  let asker = data.start;

  const draw = () => {
    const on = sum(boxes.map((box, i) => (box.checked ? 2 ** i : 0)));
    data.weights.forEach((head, i) => {
      rows[i].className = boxes[i].checked ? "" : "off";
      head[asker].forEach((percent, j) => {
        const cell = rows[i].cells[j + 1];
        cell.textContent = percent;
        shade(cell, boxes[i].checked ? percent / 100 : 0);
      });
    });
    askers.forEach((th, j) => {
      buttons[j].setAttribute("aria-pressed", j === asker);
      for (const node of [th, ...rows.map((row) => row.cells[j + 1])]) node.classList.toggle("on", j === asker);
    });
    const said = names.map((name, r) => {
      const row = rows[data.weights.length + r];
      const answers = data.answers[r][on];
      const right = data.right[r];
      answers.forEach((answer, j) => {
        const word = data.words[answer];
        row.cells[j + 1].replaceChildren(answer === right[j] ? word : el("mark", {}, word));
      });
      facts[r].textContent = say(labels.right, answers.filter((a, j) => a === right[j]).length, tokens.length);
      const form = answers[asker] === right[asker] ? labels.says : labels.wrong;
      return say(form, name, data.words[answers[asker]], data.words[right[asker]]);
    });
    status.replaceChildren(...[say(labels.asks, tokens[asker]), ...said].map((text) => el("span", {}, text)));
    root.querySelector("caption").textContent = say(labels.caption, tokens[asker]);
  };

  askers.forEach((th, j) => {
    th.replaceChildren(buttons[j]);
    for (const node of [th, ...rows.map((row) => row.cells[j + 1])]) {
      for (const event of ["mouseenter", "focusin", "click"]) {
        node.addEventListener(event, () => {
          asker = j;
          draw();
        });
      }
    }
  });
  boxes.forEach((box) => box.addEventListener("change", draw));
  controls(root, ...boxes.map((box, i) => el("div", {}, el("label", {}, box, say(labels.head, i)))));
  root.append(status);
  draw();
};

/* == layers == */
const layers = (root, data, labels) => {
  const keys = columns(root);
  const facts = root.querySelectorAll("dd");
  const status = el("p", {role: "status"});
  const at = {layer: data.layer, head: data.head};
  let chosen = 0;

  const draw = () => {
    const map = data.weights[at.layer][at.head];
    map.forEach((row, i) => row.forEach((percent, j) => {
      const cell = rows[i].cells[j + 1];
      cell.textContent = percent;
      shade(cell, percent / 100);
    }));
    const looks = map[chosen].map((percent, j) => [percent, keys[j]]).sort((a, b) => b[0] - a[0]);
    const seen = looks.slice(0, 3).map(([percent, key]) => `${key} ${percent} %`).join(", ");
    const said = [say(labels.looks, names[chosen], seen)];
    if (data.gold) {
      said.push(say(labels.gold, data.gold[chosen].map((j) => keys[j]).join(", ") || "-"));
      facts[0].textContent = say(labels.of, data.match[at.layer][at.head], data.asked);
    }
    status.replaceChildren(...lines(said));
  };
  const {rows, names, choose} = chooser(root, (i) => {
    chosen = i;
    draw();
  });
  const pick = (name, text, count) => slider(text, Array.from({length: count}, (_, i) => i + 1), at[name], (i) => {
    at[name] = i;
    draw();
  });

  controls(root, pick("layer", labels.layer, data.weights.length), pick("head", labels.head, data.weights[0].length));
  root.append(status);
  choose(0);
};
