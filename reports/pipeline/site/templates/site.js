(function () {
  const all = (selector, from) => Array.from((from || document).querySelectorAll(selector));
  const one = (selector) => document.querySelector(selector);
  const up = one("link[rel=stylesheet]").getAttribute("href").replace("assets/site.css", "");

  // Search over the names of all pages. What was found is put in as text, never as markup.
  const find = one("#find");
  const hits = one("#hits");
  const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
  const look = () => {
    const words = wordsOf(find.value);
    const found = (window.streamproofPages || []).filter(([text]) =>
      words.every((word) => text.toLowerCase().includes(word)));
    hits.replaceChildren(...found.slice(0, 20).map(([text, kind, page]) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      const what = document.createElement("span");
      link.href = up + page;
      link.textContent = text;
      what.textContent = kind;
      link.append(what);
      item.append(link);
      return item;
    }));
    if (!found.length) {
      const item = document.createElement("li");
      item.className = "none";
      item.textContent = "Nothing is called that.";
      hits.append(item);
    }
    hits.hidden = !words.length;
    one("#told").textContent = words.length ? found.length + " found" : "";
  };
  one(".finder").hidden = false;
  find.addEventListener("input", look);
  one(".finder").addEventListener("keydown", (event) => {
    const links = all("a", hits);
    const at = links.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && at + 1 < links.length) {
      event.preventDefault();
      links[at + 1].focus();
    } else if (event.key === "ArrowUp" && at >= 0) {
      event.preventDefault();
      (at ? links[at - 1] : find).focus();
    } else if (event.key === "Enter" && at < 0 && links.length) {
      links[0].click();
    } else if (event.key === "Escape") {
      find.value = "";
      look();
      find.focus();
    }
  });
  one(".finder").addEventListener("focusout", (event) => {
    if (!event.currentTarget.contains(event.relatedTarget)) { hits.hidden = true; }
  });
  find.addEventListener("focus", look);
  document.addEventListener("keydown", (event) => {
    const typing = event.target.matches("input, textarea, select");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      find.focus();
    }
  });

  // Charts say the same in numbers below them; on paper, nobody can open those.
  window.addEventListener("beforeprint", () => all("details").forEach((each) => { each.open = true; }));

  // The matrix: rows by words, area, level and status, columns by guarantee.
  if (one("#tools")) {
    const fields = ["search", "area", "level", "guarantee"].map((id) => document.getElementById(id));
    const [search, area, level, guarantee] = fields;
    const chips = all(".chips button");
    const heads = all("thead .subject");
    const rows = all("tr.row").map((row) => ({
      row,
      area: row.parentElement.dataset.area,
      text: row.querySelector("th").textContent.toLowerCase(),
      cells: all("td", row),
    }));
    let wanted = "";
    const shownColumns = () => heads.map((head) =>
      !guarantee || !guarantee.value || head.dataset.guarantee === guarantee.value);
    const filter = () => {
      const columns = shownColumns();
      const words = wordsOf(search.value);
      const kind = wanted && "c-" + wanted.replace(" ", "-");
      let count = 0;
      heads.forEach((head, index) => { head.hidden = !columns[index]; });
      rows.forEach((item) => {
        item.cells.forEach((cell, index) => { cell.hidden = !columns[index]; });
        const fits = (!area.value || item.area === area.value) &&
          (!level.value || item.row.dataset.level === level.value) &&
          words.every((word) => item.text.includes(word)) &&
          (!kind || item.cells.some((cell, index) => columns[index] && cell.classList.contains(kind)));
        item.row.hidden = !fits;
        count += fits;
      });
      all("tbody.area").forEach((body) => {
        const empty = all("tr.row", body).every((row) => row.hidden);
        body.hidden = empty;
        body.previousElementSibling.hidden = empty;
      });
      one("#nothing").hidden = count > 0;
      const subjects = columns.filter(Boolean).length;
      one("#shown").textContent = (count === rows.length ? "" : count + " of ") + rows.length +
        (rows.length === 1 ? " requirement" : " requirements") + " · " + subjects +
        (subjects === 1 ? " subject" : " subjects");
      chips.forEach((chip) => chip.setAttribute("aria-pressed", String(chip.dataset.status === wanted)));
    };
    one("#tools").hidden = false;
    fields.filter(Boolean).forEach((field) => field.addEventListener("input", filter));
    chips.forEach((chip) => chip.addEventListener("click", () => {
      wanted = chip.dataset.status === wanted ? "" : chip.dataset.status;
      filter();
    }));
  }
}());
