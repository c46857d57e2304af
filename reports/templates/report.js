(function () {
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);

  // The matrix: open a requirement, filter by status, search.
  const rows = all("tr.row").map((row) => ({
    row,
    more: row.nextElementSibling,
    button: row.querySelector(".open"),
    text: (row.querySelector("th").textContent + " " + row.nextElementSibling.textContent).toLowerCase(),
  }));
  const open = (item, yes) => {
    item.more.classList.toggle("opened", yes);
    item.row.classList.toggle("opened", yes);
    item.button.setAttribute("aria-expanded", String(yes));
  };
  const search = one("#search");
  const chips = all(".chips button");
  const FILTER = /^#(status|find)=/;
  let wanted = "";
  // The address has the filter, so that a link shows the same rows.
  const remember = () => {
    const said = new URLSearchParams();
    if (wanted) { said.set("status", wanted); }
    if (search.value) { said.set("find", search.value); }
    if (String(said) || FILTER.test(location.hash)) {
      history.replaceState(null, "", "#" + said);
    }
  };
  const recall = () => {
    if (!FILTER.test(location.hash)) { return; }
    const said = new URLSearchParams(location.hash.slice(1));
    wanted = said.get("status") || "";
    search.value = said.get("find") || "";
    filter();
  };
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((item) => {
      const fits = (!wanted || item.row.dataset.statuses.includes("|" + wanted + "|")) &&
        words.every((word) => item.text.includes(word));
      item.row.hidden = !fits;
      item.more.hidden = !fits;
      count += fits;
    });
    all("tbody.area").forEach((area) => {
      const empty = all("tr.row", area).every((row) => row.hidden);
      area.hidden = empty;
      area.previousElementSibling.hidden = empty;
    });
    one("#nothing").hidden = count > 0;
    one("#shown").textContent = (count === rows.length ? "" : count + " of ") + rows.length +
      (rows.length === 1 ? " requirement" : " requirements");
    chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.status === wanted)));
    remember();
  };
  const show = (status) => { wanted = status; filter(); };

  one("#tools").hidden = false;
  one("#shown").setAttribute("aria-live", "polite");
  rows.forEach((item) => item.button.addEventListener("click", () =>
    open(item, item.button.getAttribute("aria-expanded") !== "true")));
  all("tr.row td").forEach((cell) => cell.addEventListener("click", (event) => {
    if (!event.target.closest("a")) { cell.parentElement.querySelector(".open").click(); }
  }));
  one("#expand").addEventListener("click", (event) => {
    const yes = event.target.getAttribute("aria-pressed") !== "true";
    event.target.setAttribute("aria-pressed", String(yes));
    event.target.textContent = yes ? "Collapse all" : "Expand all";
    rows.forEach((item) => open(item, yes));
  });
  chips.forEach((chip) => chip.addEventListener("click", () =>
    show(chip.dataset.status === wanted ? "" : chip.dataset.status)));
  all("[data-show]").forEach((link) => link.addEventListener("click", () => show(link.dataset.show)));
  search.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && event.target === search) {
      search.value = "";
      wanted = "";
      filter();
    }
  });

  // A link to a requirement opens it, and a filter never hides what was linked to.
  const arrive = () => {
    let target = null;
    try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); }
    catch (ignored) { return; }
    // A failure beneath another one is folded away until somebody asks for it.
    const folded = target && target.closest("details:not([open])");
    if (folded) {
      folded.open = true;
      target.scrollIntoView();
    }
    const item = target && rows.find((each) => each.row === target);
    if (!item) { return; }
    if (item.row.hidden) { search.value = ""; show(""); }
    open(item, true);
    item.row.scrollIntoView({ block: "center" });
  };
  window.addEventListener("hashchange", () => { recall(); arrive(); });
  recall();
  arrive();
}());
