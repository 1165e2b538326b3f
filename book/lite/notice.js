// Says on the page why Python does not start, where it cannot: without this, cells would wait in silence.
{
  const { pyodide } = document.currentScript.dataset;
  const say = (text) => {
    const notice = document.createElement("p");
    notice.setAttribute("role", "alert");
    notice.textContent = text;
    notice.style.cssText = `position: fixed; z-index: 10000; inset: auto 0 0; margin: 0; padding: 1em;
      background: #7a1f1f; color: #fff; font: 1rem/1.5 sans-serif`;
    document.body.append(notice);
  };
  if (location.protocol === "file:") {
    say("Python runs here only if the pages come from a web server. In the folder of the course: make serve");
  } else {
    const address = new URL(pyodide, location);
    fetch(address, { method: "HEAD", mode: "no-cors" })
      .then((answer) => answer.ok || answer.type === "opaque" || Promise.reject(answer))
      .catch(() =>
        say(
          `Python cannot be loaded from ${address.host}, so no cell will run; what you see are stored outputs. ` +
            "Go online and open this page again, or run the chapter on your machine or in Colab.",
        ),
      );
  }
}
