// For the pages about logs: numbers of what is pointed at or focused, under its strip (the text is the
// element's own label; a strip that is drawn anew keeps what was shown and where the focus was), and
// the chart of dirty ratios. Nothing here makes HTML of data.
(function () {
  "use strict";
  const SHOWS = "[data-base][aria-label]";
  const shown = new Map(); // partition: what is shown of it

  function show(element) {
    const panel = element.closest(".anatomy");
    const readout = panel && panel.querySelector(".readout");
    if (!readout) { return; }
    panel.querySelectorAll(".shown").forEach((each) => each.classList.remove("shown"));
    element.classList.add("shown");
    readout.textContent = element.getAttribute("aria-label");
    shown.set(panel.dataset.partition, element.dataset.base);
  }

  function pointed(event) {
    const element = event.target instanceof Element ? event.target.closest(SHOWS) : null;
    if (element) { show(element); }
  }

  function find(panel, base) {
    return Array.from(panel.querySelectorAll(SHOWS)).find((each) => each.dataset.base === base);
  }

  document.addEventListener("pointerover", pointed);
  document.addEventListener("focusin", pointed);

  let focused = null;
  document.addEventListener("htmx:sseBeforeMessage", function (event) {
    const element = document.activeElement && document.activeElement.closest(SHOWS);
    focused = element && event.target.contains(element) ? element.dataset.base : null;
  });
  document.addEventListener("htmx:sseMessage", function (event) {
    const panel = event.target instanceof Element ? event.target.closest(".anatomy") : null;
    if (!panel || !shown.has(panel.dataset.partition)) { return; }
    const element = find(panel, shown.get(panel.dataset.partition));
    if (element) { show(element); }
    const again = focused !== null && find(panel, focused);
    if (again) { again.focus({ preventScroll: true }); }
  });

  // -- the chart of dirty ratios ------------------------------------------------------------------
  const COLOURS = ["--live", "--active", "--tombstone", "--link", "--good", "--muted"];

  // Lines are told apart by more than their colour.
  const DASHES = [[], [6, 3], [2, 3], [9, 3, 2, 3]];

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // Times are ISO 8601 in UTC here as everywhere: whole where there is room, else the time of day.
  function moment(at) { return at === null ? "–" : new Date(at * 1000).toISOString(); }
  function timeOfDay(at) { return moment(at).slice(11, 19) + "Z"; }

  // At least a minute is shown: few samples are no reason to show years, or parts of a second.
  function padded(data) {
    const times = data[0];
    const end = times.length > 0 ? times[times.length - 1] : Date.now() / 1000;
    if (times.length > 0 && end - times[0] >= 60) { return data; }
    const before = times.length > 0 ? [end - 60] : [end - 60, end];
    return data.map((column, index) => (index === 0 ? before : before.map(() => null)).concat(column));
  }

  function chart(holder, ratios) {
    const axis = { stroke: colour("--muted"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
    const percent = (value) => (100 * value).toFixed(0) + " %";
    return new uPlot({
      width: holder.clientWidth, height: 160,
      cursor: { y: false },
      padding: [null, 32, null, null],
      tzDate: (at) => uPlot.tzDate(new Date(at * 1000), "UTC"),
      series: [
        { value: (_, at) => moment(at) },
        ...ratios.names.map((name, index) => ({
          label: name, stroke: colour(COLOURS[index % COLOURS.length]), dash: DASHES[index % DASHES.length], width: 1.5, spanGaps: true, points: { show: false },
          value: (_, value) => value === null ? "–" : percent(value),
        })),
      ],
      axes: [Object.assign({ space: 80, values: (_, marks) => marks.map(timeOfDay) }, axis), Object.assign({ size: 56, values: (_, marks) => marks.map(percent) }, axis)],
      scales: { y: { range: [0, 1] } },
    }, padded(ratios.columns), holder);
  }

  function drawRatios(holder) {
    let names = null;
    let plot = null;
    function draw(ratios) {
      if (plot !== null && JSON.stringify(ratios.names) === names) { plot.setData(padded(ratios.columns)); return; }
      if (plot !== null) { plot.destroy(); }
      names = JSON.stringify(ratios.names);
      plot = ratios.names.length > 0 ? chart(holder, ratios) : null;
    }
    draw(JSON.parse(holder.dataset.ratios));
    new ResizeObserver(function () {
      if (plot !== null) { plot.setSize({ width: holder.clientWidth, height: 160 }); }
    }).observe(holder);
    document.addEventListener("htmx:sseMessage", function (event) {
      // As text of the page: what was sent is written for HTML.
      if (event.detail.type === "cleaner_ratios") { draw(JSON.parse(event.target.textContent)); }
    });
  }

  document.querySelectorAll(".chart[data-ratios]").forEach(drawRatios);
})();
