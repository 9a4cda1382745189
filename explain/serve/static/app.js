"use strict";
// The page of gpexplain serve. It asks /v1/explain about one input at a time and shows the
// answer. All text of the answers is set as text, never as HTML.

const $ = id => document.getElementById(id);

// make returns an element with a class and text or children.
function make(tag, name, ...content) {
	const e = document.createElement(tag);
	if (name) e.className = name;
	e.append(...content);
	return e;
}

let model = null;           // what /v1/model says
let input = null;           // the members of a request that name the input
const taken = new Map();    // training rows that are taken out, by number: what the page shows of them
let running = false, again = false;

// ---- asking

async function getJSON(path, options) {
	const r = await fetch(path, options);
	const object = await r.json();
	if (!r.ok) {
		const e = new Error(object.error.message);
		e.code = object.error.code;
		e.wait = Number(r.headers.get("Retry-After"));
		throw e;
	}
	return object;
}

let answer = null, answeredFor = null; // the last answer, and the input that it is about

function explain(body) {
	return getJSON("v1/explain", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
}

// ask explains the input, and then asks what would be predicted without the examples taken
// out, which takes longer. One request runs at a time; the last state of the page is asked
// for when it ends.
async function ask() {
	if (!input) return;
	if (running) { again = true; return; }
	running = true;
	document.body.classList.add("busy");
	try {
		do {
			again = false;
			const about = input, rows = [...taken.keys()];
			try {
				if (about !== answeredFor) {
					const x = await explain({...about, top: 8});
					answer = x;
					answeredFor = about;
					show(x);
				}
				if (!again && rows.length) {
					const {without} = await explain({...about, top: 1, without: rows});
					if (!again) show({...answer, without});
				} else if (!rows.length) {
					show(answer);
				}
				if (!again) complain("");
			} catch (e) {
				if (e.wait) { await new Promise(done => setTimeout(done, 1000 * e.wait)); again = true; continue; }
				if (!again) complain(e.message);
			}
		} while (again);
	} finally {
		running = false;
		document.body.classList.remove("busy");
	}
}

function complain(text) {
	$("error").textContent = text;
	$("error").hidden = !text;
}

// ---- numbers

const minus = "\u2212";
function number(v, digits = 3) {
	if (v === null || v === undefined) return "unknown";
	const s = Math.abs(v) >= 1e5 || v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(2) : String(Number(v.toPrecision(digits)));
	return s.replace("-", minus);
}
function signed(v) { return v === null ? "unknown" : (v < 0 ? "" : "+") + number(v); }
function share(p) {
	if (p === null) return "unknown";
	return p > 0.9995 && p < 1 ? "> 0.999" : p < 0.0005 && p > 0 ? "< 0.001" : p.toFixed(3);
}
// uncertain is a probability with its standard deviation, which is left out where it is 0 to
// three decimals.
function uncertain(p, sd) { return share(p) + (sd !== null && sd < 0.0005 ? "" : " ± " + share(sd)); }
function grouped(n) { return String(n).replace(/\B(?=(\d{3})+$)/g, ","); }

// ---- the answer

function labelOf(row) {
	if (row.label_name) return row.label_name;
	return row.label === null ? "" : number(row.label, 6);
}

function show(x) {
	const p = x.prediction, classes = x.classes;
	$("seen-box").parentNode.classList.toggle("bare", !x.input.picture);
	if (x.input.picture) $("seen").src = x.input.picture;
	$("seen").classList.toggle("ink", model.dark && model.drawing > 0);
	if (classes) {
		const best = classes.indexOf(p.class_name || String(p.class));
		const average = p.probability.indexOf(Math.max(...p.probability));
		if (average === best) {
			$("head").textContent = "Predicted " + classes[best];
			$("sure").textContent = "with probability " + uncertain(p.probability[best], p.probability_sd[best]);
		} else {
			$("head").textContent = classes[best] + " or " + classes[average] + ": network and average disagree";
			$("sure").textContent = "The trained network alone says " + classes[best] + "; averaged over the networks that fit the training data, " + classes[average] + " is more probable. Take the prediction as undecided.";
		}
		showClasses(classes, p, [best], x.without);
		badge(labelOf(x.input), classes[best]);
	} else if (x.labels) {
		const has = x.labels.map((_, i) => i).filter(i => p.probability[i] > .5), names = has.map(i => x.labels[i]).join(", ") || "none";
		$("head").textContent = "Predicted " + names;
		$("sure").textContent = "";
		showClasses(x.labels, p, has, x.without);
		badge(labelOf(x.input), names);
	} else {
		const list = (p.observation_mean || p.mean).map((m, i) => number(m, 4) + " ± " + number((p.observation_sd || [])[i] ?? null));
		$("head").textContent = "Predicted " + (model.target || "value") + " " + list.join(", ");
		$("sure").textContent = "";
		$("classes").replaceChildren();
		$("bar-note").textContent = "± is the standard deviation of a new observation" + (p.function_sd ? "; that of the function is " + p.function_sd.map(v => number(v)).join(", ") : "") + ".";
		badge(labelOf(x.input), null);
	}
	showFeatures(x.input.values);
	const n = p.novelty;
	$("novelty").textContent = n && n.rank !== null ? "Farther from the training data than " + Math.round(100 * n.rank) + " % of the training rows are from the others." : "";
	$("notes").replaceChildren(...(x.input.notes || []).map(t => make("li", "", t)));
	showWithout(x);
	$("says").textContent = x.score.says;
	$("why").textContent = x.score.title;
	showSum(x);
	$("for-title").textContent = capital(x.score.positive);
	$("against-title").textContent = capital(x.score.negative);
	const most = Math.max(...[...x.for, ...x.against].map(t => Math.abs(t.value)), 1e-300);
	$("bars").hidden = ![...x.for, ...x.against].some(t => typeof t.sd === "number");
	terms($("for"), x.for, most, "for");
	terms($("against"), x.against, most, "against");
}

function capital(s) { return s.charAt(0).toUpperCase() + s.slice(1); }

function badge(label, predicted) {
	const b = $("badge");
	b.hidden = !label;
	b.classList.toggle("wrong", predicted !== null && label !== predicted);
	b.textContent = predicted === null ? "target " + label : label === predicted ? "✓ labelled " + label : "✗ labelled " + label;
}

// mostBars is the number of classes that are shown, the most probable ones.
const mostBars = 10;

// showClasses shows the probabilities of classes, or of labels, of which those at the places best are predicted.
function showClasses(classes, p, best, without) {
	const order = classes.map((_, i) => i).sort((a, b) => classes.length <= mostBars ? a - b : p.probability[b] - p.probability[a]).slice(0, mostBars);
	const list = [];
	for (const i of order) {
		const v = p.probability[i], sd = p.probability_sd[i];
		const track = make("div", "track"), fill = make("i", "fill"), range = make("i", "range");
		fill.style.width = 100 * v + "%";
		range.style.left = 100 * Math.max(0, v - sd) + "%";
		range.style.right = 100 - 100 * Math.min(1, v + sd) + "%";
		track.append(fill, range);
		let text = uncertain(v, sd);
		if (without && without.probability) {
			const now = make("i", "now");
			now.style.left = 100 * without.probability[i] + "%";
			track.append(now);
			text += " → " + share(without.probability[i]);
		}
		list.push(make("span", best.includes(i) ? "name is" : "name", classes[i]), track, make("span", "value", text));
	}
	$("classes").replaceChildren(...list);
	$("bar-note").textContent = "Probabilities over the networks that fit the training data, ± one standard deviation between them. " + (best.length ? "The network alone says " + best.map(i => share(p.map_probability[i]) + " for " + classes[i]).join(", ") + "." : "") + (without ? " The upright marks are without the examples taken out." : "");
}

function showFeatures(values) {
	const list = (values || []).slice(0, 60).map((v, j) => make("div", "", make("dt", "", (model.columns || [])[j] || "x" + (j + 1)), make("dd", "", number(v, 5))));
	$("features").replaceChildren(...list);
}

function showSum(x) {
	const s = x.sum, part = (v, what) => make("span", "part", make("b", "", signed(v)), make("small", "", what));
	const op = t => make("span", "op", t);
	$("equation").replaceChildren(op(""), part(s.network, "the network"), op("="), part(s.prior_mean, "prior mean"), op("+"), part(s.contribution_sum, "all " + grouped(s.examples) + " examples"), op("+"), part(s.remainder, "remainder"));
}

// pictureOf is the picture of a training row.
function pictureOf(row) {
	const img = make("img", "thumb");
	img.src = "v1/train/" + row + "/picture";
	img.alt = "";
	img.classList.toggle("ink", model.dark && model.drawing > 0);
	return img;
}

// errorBar is "± sd", with a star at a score that is more than two sd from 0.
function errorBar(t) {
	return typeof t.sd === "number" ? [make("span", "sd", " ± " + number(t.sd, 2) + (t.distinguishable ? " *" : ""))] : [];
}

function terms(list, rows, most, side) {
	const items = rows.map(t => {
		const bar = make("span", "bar " + side), fill = make("i");
		fill.style.width = 100 * Math.abs(t.value) / most + "%";
		bar.append(fill);
		const name = t.id || labelOf(t) || "row " + t.index;
		const label = t.id && labelOf(t) ? [make("span", "", "labelled " + labelOf(t))] : [];
		const detail = make("span", "detail", ...label, make("span", "", "row " + t.index), make("span", "", "alike " + number(t.similarity, 2)), make("span", "", "without it " + signed(t.removal)));
		const body = make("span", "", make("span", "top", make("b", "", name), make("span", "score " + side, signed(t.value), ...errorBar(t))), bar, detail);
		if (t.values) body.append(make("span", "detail", t.values.slice(0, 8).map((v, j) => ((model.columns || [])[j] || "x" + (j + 1)) + " " + number(v)).join(", ") + (t.values.length > 8 ? ", …" : "")));
		const b = make("button", "");
		b.type = "button";
		if (model.images) b.append(pictureOf(t.index));
		b.append(body);
		b.dataset.row = t.index;
		b.setAttribute("aria-pressed", taken.has(t.index));
		b.title = taken.has(t.index) ? "put this example back" : "take this example out";
		b.addEventListener("click", () => toggle(t.index, name));
		return make("li", model.images ? "" : "bare", b);
	});
	// The focus stays on the same row where it is still listed.
	const at = document.activeElement && list.contains(document.activeElement) ? document.activeElement.dataset.row : "";
	list.replaceChildren(...items);
	if (at) list.querySelector(`button[data-row="${Number(at)}"]`)?.focus();
}

function toggle(row, name) {
	if (!taken.delete(row)) taken.set(row, name);
	for (const b of document.querySelectorAll(".sides button")) b.setAttribute("aria-pressed", taken.has(Number(b.dataset.row)));
	chips();
	ask();
}

function chips() {
	$("chips").replaceChildren(...[...taken].map(([row, name]) => {
		const b = make("button", "");
		b.type = "button";
		if (model.images) b.append(pictureOf(row));
		b.append(name + " · row " + row + " ×");
		b.setAttribute("aria-label", "put back row " + row);
		b.addEventListener("click", () => toggle(row, name));
		return b;
	}));
	$("restore").hidden = taken.size === 0;
}

function showWithout(x) {
	chips();
	const text = $("without-text"), w = x.without;
	if (!w && taken.size) {
		text.textContent = taken.size === 1 ? "Without this example …" : "Without these " + taken.size + " examples …";
		text.className = "soft";
		return;
	}
	if (!w) {
		text.textContent = "Take examples out by clicking them in the lists below, and see what would be predicted without them.";
		text.className = "soft";
		return;
	}
	text.className = "";
	const those = w.rows.length === 1 ? "this example" : "these " + w.rows.length + " examples";
	if (x.classes) {
		const name = x.prediction.class_name || String(x.prediction.class), i = x.classes.indexOf(name);
		const changed = w.class_name !== w.class_before;
		text.replaceChildren("Without " + those + ", the probability of " + name + " goes from ", make("b", "was", share(x.prediction.probability[i])), " to ", make("b", changed ? "changed" : "", share(w.probability[i])),
			changed ? ", and the class from " + w.class_before + " to " + w.class_name + "." : "; the class stays " + w.class_name + ".");
	} else if (x.labels) {
		text.replaceChildren("Without " + those + ", the probabilities go from ", make("b", "was", x.prediction.probability.map(share).join(", ")), " to ", make("b", "", w.probability.map(share).join(", ")), ".");
	} else {
		const before = x.prediction.observation_mean || x.prediction.mean, after = w.observation_mean || w.mean;
		text.replaceChildren("Without " + those + ", the prediction goes from ", make("b", "was", before.map(v => number(v, 4)).join(", ")), " to ", make("b", "", after.map(v => number(v, 4)).join(", ")), ".");
	}
	text.append(" " + (model.orders[w.order] || ""));
}

// ---- test rows

const perPage = 24;
let page = {from: 0, total: 0, rows: []};

async function turn(from) {
	page = await getJSON("v1/rows?from=" + from + "&count=" + perPage);
	$("page-at").textContent = page.total ? (page.from + 1) + "–" + (page.from + page.rows.length) + " of " + grouped(page.total) : "there are no test rows";
	$("page-back").disabled = page.from === 0;
	$("page-next").disabled = page.from + page.rows.length >= page.total;
	$("rows").classList.toggle("words", !model.images);
	$("rows").replaceChildren(...page.rows.map(r => {
		const b = make("button", "");
		b.type = "button";
		b.dataset.row = r.index;
		const label = labelOf(r);
		if (model.images) {
			const img = make("img", "thumb");
			img.src = "v1/test/" + r.index + "/picture";
			img.alt = "";
			img.classList.toggle("ink", model.dark && model.drawing > 0);
			b.append(img, label || String(r.index));
		} else {
			b.append((r.id || "row " + r.index) + (label ? " · " + label : ""));
		}
		b.setAttribute("aria-label", "test row " + r.index + (label ? ", labelled " + label : ""));
		b.addEventListener("click", () => choose(r.index));
		return b;
	}));
	mark();
}

function mark() {
	for (const b of $("rows").children) b.setAttribute("aria-pressed", input !== null && input.row === Number(b.dataset.row));
}

function choose(row) {
	input = {row};
	$("row").value = row;
	mark();
	ask();
}

// step moves to the test row that many places further on, over pages.
async function step(by) {
	let at = page.rows.findIndex(r => input && r.index === input.row);
	if (at < 0) at = by > 0 ? -1 : page.rows.length;
	at += by;
	if (at < 0 || at >= page.rows.length) {
		const from = page.from + (at < 0 ? -perPage : perPage);
		if (from < 0 && page.from === 0 || from >= page.total) return;
		await turn(Math.max(0, from));
		at = by > 0 ? 0 : page.rows.length - 1;
	}
	choose(page.rows[at].index);
}

async function any() {
	const at = Math.floor(Math.random() * page.total);
	await turn(Math.floor(at / perPage) * perPage);
	const r = page.rows[at - page.from];
	if (r) choose(r.index);
}

// ---- drawing

const canvas = $("canvas");
let strokes = [];                  // lists of points
const pen = {x: 140, y: 70, down: false, shown: false};
const penWidth = 22;

function paint() {
	const g = canvas.getContext("2d");
	g.fillStyle = "#000";
	g.fillRect(0, 0, 280, 280);
	g.strokeStyle = g.fillStyle = "#fff";
	g.lineWidth = penWidth;
	g.lineCap = g.lineJoin = "round";
	for (const s of strokes) {
		g.beginPath();
		g.moveTo(s[0].x, s[0].y);
		if (s.length === 1) g.lineTo(s[0].x + 0.01, s[0].y);
		// Curves through the middles of the points are smooth.
		for (let i = 1; i < s.length; i++) {
			const mid = {x: (s[i - 1].x + s[i].x) / 2, y: (s[i - 1].y + s[i].y) / 2};
			g.quadraticCurveTo(s[i - 1].x, s[i - 1].y, mid.x, mid.y);
		}
		g.lineTo(s[s.length - 1].x, s[s.length - 1].y);
		g.stroke();
	}
}

// sketch asks about the drawing, as the canvas shows it without the pen of the keyboard.
function sketch() {
	paint();
	if (strokes.length === 0) return;
	const url = canvas.toDataURL("image/png");
	if (pen.shown) showPen();
	input = {picture: url.slice(url.indexOf(",") + 1), fit: "ink"};
	mark();
	ask();
}

function showPen() {
	const g = canvas.getContext("2d");
	g.strokeStyle = pen.down ? "#f0a35e" : "#74b0e6";
	g.lineWidth = 2;
	g.beginPath();
	g.arc(pen.x, pen.y, penWidth / 2, 0, 2 * Math.PI);
	g.stroke();
}

function pointOf(e) {
	const r = canvas.getBoundingClientRect();
	return {x: (e.clientX - r.left) * 280 / r.width, y: (e.clientY - r.top) * 280 / r.height};
}

let drawing = false;
canvas.addEventListener("pointerdown", e => {
	if (e.button !== 0) return;
	drawing = true;
	pen.shown = pen.down = false;
	canvas.setPointerCapture(e.pointerId);
	strokes.push([pointOf(e)]);
	sketch();
});
canvas.addEventListener("pointermove", e => {
	if (!drawing) return;
	for (const p of e.getCoalescedEvents ? e.getCoalescedEvents() : [e]) strokes[strokes.length - 1].push(pointOf(p));
	sketch();
});
for (const end of ["pointerup", "pointercancel"]) canvas.addEventListener(end, () => { drawing = false; });

const arrows = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
canvas.addEventListener("keydown", e => {
	if (arrows[e.key]) {
		const by = e.shiftKey ? 2 : 8, within = v => Math.min(280, Math.max(0, v));
		pen.x = within(pen.x + by * arrows[e.key][0]);
		pen.y = within(pen.y + by * arrows[e.key][1]);
		if (pen.down) strokes[strokes.length - 1].push({x: pen.x, y: pen.y});
	} else if (e.key === " ") {
		pen.down = !pen.down;
		if (pen.down) strokes.push([{x: pen.x, y: pen.y}]);
	} else {
		return;
	}
	e.preventDefault();
	pen.shown = true;
	if (pen.down) sketch(); else { paint(); showPen(); }
});
canvas.addEventListener("focus", () => { if (canvas.matches(":focus-visible")) { pen.shown = true; paint(); showPen(); } });
canvas.addEventListener("blur", () => { pen.shown = pen.down = false; paint(); });
$("draw-clear").addEventListener("click", () => { strokes = []; paint(); complain(""); });
$("draw-undo").addEventListener("click", () => { strokes.pop(); if (strokes.length) sketch(); else paint(); });

// ---- files

let file = null;

async function upload() {
	if (!file) return;
	$("drop-text").textContent = file.name;
	if (file.size > 5 << 20) { complain(file.name + " has more than 5 MiB; choose a smaller file"); return; }
	const bytes = new Uint8Array(await file.arrayBuffer());
	const isPicture = bytes[0] === 0x89 && bytes[1] === 0x50 || bytes[0] === 0xff && bytes[1] === 0xd8;
	if (isPicture) {
		let text = "";
		for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
		input = {picture: btoa(text)};
		if (model.drawing && $("ink").checked) input.fit = "ink";
	} else {
		input = {table: new TextDecoder().decode(bytes)};
	}
	mark();
	ask();
}

$("file").addEventListener("change", e => { file = e.target.files[0] || null; upload(); });
$("ink").addEventListener("change", upload);
for (const name of ["dragenter", "dragover"]) $("drop").addEventListener(name, e => { e.preventDefault(); $("drop").classList.add("over"); });
for (const name of ["dragleave", "drop"]) $("drop").addEventListener(name, e => { e.preventDefault(); $("drop").classList.remove("over"); });
$("drop").addEventListener("drop", e => { file = e.dataTransfer.files[0] || null; upload(); });

// ---- tabs

const tabs = () => [...document.querySelectorAll("[role=tab]")].filter(t => !t.hidden);

function select(tab) {
	for (const t of document.querySelectorAll("[role=tab]")) {
		const is = t === tab;
		t.setAttribute("aria-selected", is);
		t.tabIndex = is ? 0 : -1;
		$(t.getAttribute("aria-controls")).hidden = !is;
	}
	if (tab.id === "tab-draw") paint();
}

for (const t of document.querySelectorAll("[role=tab]")) {
	t.addEventListener("click", () => select(t));
	t.addEventListener("keydown", e => {
		const by = {ArrowLeft: -1, ArrowRight: 1}[e.key], list = tabs();
		if (!by) return;
		const next = list[(list.indexOf(t) + by + list.length) % list.length];
		select(next);
		next.focus();
	});
}

$("row-back").addEventListener("click", () => step(-1).catch(e => complain(e.message)));
$("row-next").addEventListener("click", () => step(1).catch(e => complain(e.message)));
$("row-any").addEventListener("click", () => any().catch(e => complain(e.message)));
$("row").addEventListener("change", () => choose(Number($("row").value)));
$("page-back").addEventListener("click", () => turn(Math.max(0, page.from - perPage)).catch(e => complain(e.message)));
$("page-next").addEventListener("click", () => turn(page.from + perPage).catch(e => complain(e.message)));
$("restore").addEventListener("click", () => { taken.clear(); toggleAll(); ask(); });

function toggleAll() {
	for (const b of document.querySelectorAll(".sides button")) b.setAttribute("aria-pressed", taken.has(Number(b.dataset.row)));
	chips();
}

// ---- beginning

async function begin() {
	try {
		model = await getJSON("v1/model");
	} catch (e) {
		complain(e.message);
		if (e.wait) setTimeout(begin, 1000 * e.wait);
		return;
	}
	complain("");
	$("about").textContent = model.model + " · " + model.data + " · " + grouped(model.train) + " training examples";
	document.title = "gpexplain: " + model.model;
	$("tab-draw").hidden = !model.drawing;
	$("ink-line").hidden = !model.drawing;
	$("file").accept = model.images ? "image/png,image/jpeg,text/csv,.csv" : "text/csv,.csv";
	$("drop-text").textContent = model.images ? "Choose a PNG or JPEG picture, or a CSV file of one row, or drop it here" : "Choose a CSV file of one row, or drop it here";
	if (model.warnings.length) {
		$("warnings").hidden = false;
		$("warnings").querySelector("summary").textContent = model.warnings.length === 1 ? "A warning about this model" : model.warnings.length + " warnings about this model";
		$("warnings").querySelector("ul").replaceChildren(...model.warnings.map(w => make("li", "", (w.text + " " + w.remedy).trim())));
	}
	const api = make("a", "", "/openapi.json");
	api.href = "openapi.json";
	$("foot").replaceChildren((model.version || "gpexplain") + " · method " + model.method + (model.refit ? ", refit" : "") + " · programs ask /v1/predict and /v1/explain: ", api);
	chips();
	try {
		await turn(0);
		if (page.rows.length) choose(page.rows[0].index); else select($(model.drawing ? "tab-draw" : "tab-file"));
	} catch (e) {
		complain(e.message);
	}
}

begin();
