"use strict";
// Sorting, filtering and the what-if. The page is complete without: everything here is a view.
(() => {
  document.documentElement.classList.add("js");
  const data = JSON.parse(document.getElementById("data").textContent);

  // --- the table ---------------------------------------------------------------------------------
  const table = document.getElementById("table");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const words = rows.map((row) => row.textContent.toLowerCase().normalize("NFKD"));
  const search = document.getElementById("search");
  const show = document.getElementById("show");
  const found = document.getElementById("found");
  const chosen = show.querySelector("[value=rows]");
  let picked = new Set();

  const filter = () => {
    const wanted = search.value.toLowerCase().normalize("NFKD").split(/\s+/).filter(Boolean);
    let count = 0;
    rows.forEach((row, index) => {
      const tags = row.dataset.tags.split(" ");
      const tagged = !show.value || (show.value === "rows" ? picked.has(index) : tags.includes(show.value));
      row.hidden = !(tagged && wanted.every((word) => words[index].includes(word)));
      count += !row.hidden;
    });
    found.textContent = `${count} of ${rows.length} shown`;
  };
  search.addEventListener("input", filter);
  show.addEventListener("change", filter);
  document.getElementById("clear").addEventListener("click", () => {
    search.value = show.value = "";
    filter();
  });
  document.querySelectorAll("[data-show]").forEach((button) => {
    button.addEventListener("click", () => {
      picked = new Set(button.dataset.show.split(" ").map(Number));
      chosen.hidden = false;
      chosen.textContent = button.dataset.label;
      show.value = "rows";
      search.value = "";
      filter();
      document.getElementById("students").scrollIntoView();
      show.focus({ preventScroll: true });
    });
  });

  const collator = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });
  const valueOf = (row, column, kind) => {
    const cell = row.cells[column];
    if (kind === "text") return cell.textContent.trim();
    return cell.dataset.value ? Number(cell.dataset.value) : null;
  };
  const sort = (heading, column) => {
    const kind = heading.dataset.sort;
    const before = heading.getAttribute("aria-sort");
    // Numbers are first asked for from the top.
    const first = kind === "number" ? "descending" : "ascending";
    const other = kind === "number" ? "ascending" : "descending";
    const order = before === first ? other : first;
    [...heading.parentElement.cells].forEach((cell) => cell.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", order);
    const sign = order === "ascending" ? 1 : -1;
    const keyed = rows.map((row, index) => ({ row, index, value: valueOf(row, column, kind) }));
    keyed.sort((a, b) => {
      const empty = (each) => each.value === null || each.value === "";
      if (empty(a) || empty(b)) return empty(a) - empty(b) || a.index - b.index; // last, always
      const order = kind === "text" ? collator.compare(a.value, b.value) : a.value - b.value;
      return sign * order || a.index - b.index;
    });
    body.append(...keyed.map((each) => each.row));
  };
  [...table.tHead.rows[0].cells].forEach((heading, column) => {
    if (!heading.dataset.sort) return;
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => sort(heading, column));
  });
  filter();

  // --- the what-if -------------------------------------------------------------------------------
  const scaleOf = (svg) => ({ low: Number(svg.dataset.low), high: Number(svg.dataset.high) });
  const number = (value, digits) => String(Number(value.toFixed(digits)));

  // As score.py decides: the first threshold that holds; one whose measure is missing is passed over.
  const reached = (values, thresholds, limits) => {
    let decided = false;
    for (let index = 0; index < thresholds.length; index += 1) {
      const value = values[thresholds[index].measure];
      if (typeof value !== "number") continue;
      decided = true;
      if (thresholds[index].least ? value >= limits[index] : value <= limits[index]) return index;
    }
    return decided ? -1 : null;
  };

  document.querySelectorAll("[data-strip]").forEach((strip) => {
    const { thresholds, timings, offered } = data.strips[Number(strip.dataset.strip)];
    const original = thresholds.map((each) => each.limit);
    const limits = [...original];
    const inputs = [...strip.querySelectorAll("input[data-threshold]")];
    const now = timings.map((values) => reached(values, thresholds, original));
    const worth = (index) => (index === null || index < 0 ? 0 : thresholds[index].points);

    const count = () => {
      const then = timings.map((values) => reached(values, thresholds, limits));
      strip.querySelectorAll("[data-would]").forEach((cell) => {
        const index = cell.dataset.would === "none" ? -1 : Number(cell.dataset.would);
        cell.textContent = then.filter((each) => each === index).length;
      });
      const changes = then.map((each, index) => worth(each) - worth(now[index]));
      const mean = (list) => list.reduce((sum, each) => sum + worth(each), 0) / Math.max(1, list.length);
      const gain = changes.filter((each) => each > 0).length;
      const lose = changes.filter((each) => each < 0).length;
      const moved = limits.some((each, index) => each !== original[index]);
      strip.querySelector("[data-summary]").textContent = moved
        ? `${gain} would gain, ${lose} would lose; the mean goes from ${number(mean(now), 2)} ` +
          `to ${number(mean(then), 2)} of ${number(offered, 2)} points.`
        : `The mean is ${number(mean(now), 2)} of ${number(offered, 2)} points.`;
    };
    const draw = (index) => {
      const group = strip.querySelector(`g[data-threshold="${index}"]`);
      const { low, high } = scaleOf(group.ownerSVGElement);
      const at = 100 * Math.min(1, Math.max(0, (limits[index] - low) / (high - low)));
      group.querySelectorAll("line").forEach((line) => {
        line.setAttribute("x1", `${at}%`);
        line.setAttribute("x2", `${at}%`);
      });
      const text = group.querySelector("text");
      text.setAttribute("x", `${at}%`);
      text.setAttribute("text-anchor", at > 88 ? "end" : at < 8 ? "start" : "middle");
      text.textContent = `${number(limits[index], 3)} (${number(thresholds[index].points, 2)} pt)`;
      group.firstElementChild.classList.toggle("moved", limits[index] !== original[index]);
    };
    const move = (index, limit) => {
      limits[index] = limit;
      draw(index);
      count();
    };

    inputs.forEach((input, index) => {
      input.addEventListener("input", () => {
        const limit = Number(input.value);
        if (input.value !== "" && Number.isFinite(limit) && limit >= 0) move(index, limit);
      });
    });
    strip.querySelector("[data-reset]").addEventListener("click", () => {
      original.forEach((limit, index) => {
        inputs[index].value = limit;
        move(index, limit);
      });
    });
    strip.querySelectorAll("g[data-threshold]").forEach((group) => {
      const index = Number(group.dataset.threshold);
      const handle = group.querySelector(".handle");
      handle.addEventListener("pointerdown", (event) => {
        event.preventDefault();
        handle.setPointerCapture(event.pointerId);
      });
      handle.addEventListener("pointermove", (event) => {
        if (!handle.hasPointerCapture(event.pointerId)) return;
        const svg = group.ownerSVGElement;
        const box = svg.getBoundingClientRect();
        const share = Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
        const { low, high } = scaleOf(svg);
        const limit = Number((low + share * (high - low)).toPrecision(3));
        inputs[index].value = limit;
        move(index, limit);
      });
    });
    count();
  });
})();
