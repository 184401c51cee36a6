"use strict";
// The contents follow the reader, counts filter the table of claims, and terms explain themselves.

// Contents: the section in view is marked, and its claims are listed.

function followReader() {
  const links = new Map([...document.querySelectorAll('nav > ul > li > a[href^="#"]')].map((link) => [link.hash.slice(1), link]));
  const headings = [...links.keys()].map((id) => document.getElementById(id));
  let waiting = false;
  const mark = () => {
    waiting = false;
    const passed = headings.filter((heading) => heading.getBoundingClientRect().top < window.innerHeight / 3);
    const current = links.get((passed.at(-1) ?? headings[0]).id);
    if (current.hasAttribute("aria-current")) return;
    for (const link of links.values()) link.removeAttribute("aria-current");
    current.setAttribute("aria-current", "true");
  };
  document.addEventListener("scroll", () => {
    if (!waiting) requestAnimationFrame(mark);
    waiting = true;
  }, { passive: true });
  mark();
}

// The table of claims: the counts above it choose rows, by kind and verdict, and the address keeps the choice.

function chooseClaims() {
  const table = document.querySelector("table.claims"), note = document.querySelector("p.chosen");
  const rows = [...table.querySelectorAll("tr.row")];
  const show = () => {
    const asked = [...new URLSearchParams(location.search)].filter(([name, value]) => name in rows[0].dataset && value);
    const fits = (row) => asked.every(([name, value]) => row.dataset[name] === value);
    for (const row of rows) row.hidden = !fits(row);
    for (const body of table.tBodies) body.hidden = ![...body.querySelectorAll("tr.row")].some(fits);
    note.hidden = !asked.length;
    note.firstElementChild.textContent = `${rows.filter(fits).length} of ${rows.length} claims.`;
    for (const link of document.querySelectorAll(".tally a")) {
      link.toggleAttribute("aria-current", asked.length > 0 && link.search === location.search);
    }
  };
  for (const link of document.querySelectorAll(".tally a, p.chosen a")) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      history.replaceState(null, "", link.href);
      show();
    });
  }
  if (rows.length) show();
}

// Terms: their definition stands in the text, where their link leads; here it appears beside them as well.

function explainTerms() {
  const tip = Object.assign(document.createElement("div"), { id: "tip", hidden: true });
  tip.setAttribute("role", "tooltip");
  document.body.append(tip);
  let shownFor = null, leaving = 0;
  const hide = () => {
    clearTimeout(leaving);
    shownFor?.removeAttribute("aria-describedby");
    shownFor = null;
    tip.hidden = true;
  };
  const show = (link) => {
    clearTimeout(leaving);
    if (shownFor === link) return;
    hide();
    const place = document.getElementById(link.hash.slice(1));
    tip.replaceChildren(...place.nextElementSibling.cloneNode(true).childNodes);
    tip.hidden = false;
    shownFor = link;
    link.setAttribute("aria-describedby", "tip");
    const at = link.getBoundingClientRect(), size = tip.getBoundingClientRect(), page = document.documentElement;
    const below = at.bottom + size.height + 12 < window.innerHeight || at.top < size.height + 12;
    tip.style.left = `${Math.max(8, Math.min(at.left, page.clientWidth - size.width - 8)) + window.scrollX}px`;
    tip.style.top = `${(below ? at.bottom + 6 : at.top - size.height - 6) + window.scrollY}px`;
  };
  const leave = () => (leaving = setTimeout(hide, 200));
  for (const link of document.querySelectorAll("a.badge, a.term")) {
    link.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && show(link));
    link.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    link.addEventListener("focus", () => link.matches(":focus-visible") && show(link));
    link.addEventListener("blur", leave);
    link.addEventListener("click", (event) => {
      const first = event.pointerType === "touch" && shownFor !== link;
      if (first) event.preventDefault();
      first ? show(link) : hide();
    });
  }
  tip.addEventListener("pointerenter", () => clearTimeout(leaving));
  tip.addEventListener("pointerleave", leave);
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
  document.addEventListener("pointerdown", (event) => event.target !== shownFor && !tip.contains(event.target) && hide());
}

// A link into a folded part unfolds it.

function unfold() {
  const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target && target.closest("details:not([open])");
  if (folded) folded.open = true;
}

followReader();
chooseClaims();
explainTerms();
window.addEventListener("hashchange", unfold);
unfold();
