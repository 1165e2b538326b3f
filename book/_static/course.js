// What CSS alone cannot do for a page: keys that scroll a formula, and paper, which is light whatever the screen.

// Lets the keyboard reach, and so scroll, a formula that is wider than the page.
const watch = new ResizeObserver(entries => {
  for (const { target } of entries) {
    if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
    else target.removeAttribute("tabindex");
  }
});
document.querySelectorAll(".katex-display").forEach(formula => watch.observe(formula));

const root = document.documentElement;
let theme;
addEventListener("beforeprint", () => {
  theme = root.dataset.theme;
  root.dataset.theme = "light";
});
addEventListener("afterprint", () => { root.dataset.theme = theme; });
