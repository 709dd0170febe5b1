// Sets light or dark before the first paint: the person's choice (a cookie, so that the server knows it too), else the system's.
(function () {
  "use strict";
  const root = document.documentElement;
  root.dataset.scripted = ""; // the style sheets hide what needs a script
  const system = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    const found = document.cookie.match(/(?:^|; )takt_theme=(light|dark)/);
    return found ? found[1] : "auto";
  }

  function apply() {
    const choice = chosen();
    const theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
    if (root.getAttribute("data-bs-theme") !== theme) {
      root.setAttribute("data-bs-theme", theme);
      document.dispatchEvent(new CustomEvent("takt:theme", { detail: theme }));
    }
  }

  function choose(choice) {
    const age = choice === "auto" ? 0 : 31536000;
    const secure = location.protocol === "https:" ? "; Secure" : "";
    document.cookie = "takt_theme=" + choice + "; Path=/; Max-Age=" + age + "; SameSite=Lax" + secure;
    apply();
  }

  system.addEventListener("change", apply);
  apply();
  window.taktTheme = { chosen: chosen, choose: choose };
})();
