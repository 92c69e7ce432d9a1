// One table of significance at a time: that of the metric and the test that the reader picks.

const tested = document.getElementById("tested-controls");

function switchTested() {
  const { metric, test } = tested.elements;
  for (const each of document.querySelectorAll("details.tested")) {
    each.hidden = each.dataset.metric !== metric.value || each.dataset.test !== test.value;
    each.open = true;
    each.classList.add("switched");
  }
}

if (tested) {
  tested.hidden = false;
  tested.addEventListener("input", switchTested);
  tested.addEventListener("submit", (event) => event.preventDefault());
  switchTested();
}
