"use strict";
(function () {
  const root = document.documentElement;
  const one = (selector) => document.querySelector(selector);
  root.classList.add("js");

  // The theme: the system's, until somebody chooses. Storage may be forbidden on file://.
  const theme = one("#theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (system.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  try { root.dataset.theme = localStorage.getItem("streamproof-theme") || root.dataset.theme || ""; }
  catch (ignored) { /* The choice lasts as long as the page, then. */ }
  theme.hidden = false;
  theme.setAttribute("aria-label", "Switch between the light and the dark theme");
  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("streamproof-theme", root.dataset.theme); } catch (ignored) { /* As above. */ }
    nameTheme();
  });
  system.addEventListener("change", nameTheme);
  nameTheme();

  // Copy: the clipboard is not available on every origin, and a selection always is.
  document.querySelectorAll(".copy").forEach((button) => button.addEventListener("click", () => {
    const code = button.closest(".block").querySelector("code");
    const say = (word) => {
      button.textContent = word;
      setTimeout(() => { button.textContent = "Copy"; }, 1600);
    };
    const select = () => {
      getSelection().selectAllChildren(code);
      say(document.execCommand("copy") ? "Copied" : "Selected");
    };
    if (navigator.clipboard) {
      navigator.clipboard.writeText(code.textContent).then(() => say("Copied"), select);
    } else { select(); }
  }));
}());
