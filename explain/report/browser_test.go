package report

import (
	"context"
	"encoding/json"
	"errors"
	"html/template"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
)

// findBrowser returns the command of a browser. It skips the test if none is
// installed, and in the short run.
func findBrowser(t *testing.T) string {
	t.Helper()
	testref.Long(t, "the pages are opened in a browser in the long run")
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	t.Skip("no chromium is installed: the pages were not opened in a browser")
	return ""
}

// headless are the flags of a browser without a window.
func headless(t *testing.T) []string {
	return []string{"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir()}
}

// chromium opens an HTML file without a window and returns the DOM after loading.
func chromium(t *testing.T, path string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, findBrowser(t), append(headless(t), "--virtual-time-budget=10000", "--dump-dom", "file://"+path)...)
	out := testref.Must(cmd.Output())(t)
	return string(out)
}

// frame shows the page in frames of several widths and reports on each. The page
// has no script, so the script that inspects it is in the outer document.
var frame = template.Must(template.New("").Parse(`<!doctype html><meta charset="utf-8"><body>
{{range .Widths}}<iframe style="width:{{.}}px;height:900px;border:0" srcdoc="{{$.Page}}"></iframe>{{end}}
<pre id="report"></pre>
<script>
addEventListener("load", () => {
	const report = [];
	for (const frame of document.querySelectorAll("iframe")) {
		const doc = frame.contentDocument, width = frame.clientWidth, wide = [];
		for (const e of doc.body.querySelectorAll("*"))
			if (e.getBoundingClientRect().right > width + 0.5 && !e.closest(".wide:not(.similar)")) wide.push(e.tagName + "." + e.getAttribute("class"));
		// Numbers on two lines, and texts of drawings beyond their edge
		const torn = [];
		for (let walk = doc.createTreeWalker(doc.body, NodeFilter.SHOW_TEXT), node; node = walk.nextNode();)
			for (const m of node.data.matchAll(/(?<![\p{L}\d_.-])[−+±]?\d[\d\u202f.]*(?![\p{L}\d_-])/gu)) {
				const range = doc.createRange();
				range.setStart(node, m.index);
				range.setEnd(node, m.index + m[0].length);
				if (new Set([...range.getClientRects()].filter(r => r.width > 0).map(r => r.top)).size > 1) torn.push(m[0]);
			}
		for (const e of doc.querySelectorAll("svg text"))
			if (e.getBoundingClientRect().left < e.ownerSVGElement.getBoundingClientRect().left - 0.5) torn.push(e.textContent);
		const images = [...doc.images];
		report.push({width, images: images.length, broken: images.filter(i => !i.complete || i.naturalWidth == 0).length,
			unnamed: doc.querySelectorAll("img:not([alt]), svg[role=img]:not([aria-label])").length,
			text: doc.body.innerText, wide, torn, scroll: doc.documentElement.scrollWidth});
	}
	document.getElementById("report").textContent = JSON.stringify(report);
});
</script>`))

type seen struct {
	Width, Images, Broken, Unnamed, Scroll int
	Text                                   string
	Wide, Torn                             []string
}

func look(t *testing.T, page string) []seen {
	t.Helper()
	path := filepath.Join(t.TempDir(), "frame.html")
	f := testref.Must(os.Create(path))(t)
	require.NoError(t, frame.Execute(f, map[string]any{"Page": page, "Widths": []int{360, 700, 900, 1200, 1800}}))
	require.NoError(t, f.Close())
	dom := chromium(t, path)
	_, report, ok := strings.Cut(dom, `<pre id="report">`)
	require.True(t, ok, "the page did not load")
	report, _, _ = strings.Cut(report, "</pre>")
	report = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&nbsp;", "\u00a0", "&amp;", "&").Replace(report)
	var list []seen
	require.NoError(t, json.Unmarshal([]byte(report), &list), report)
	return list
}

// In a browser every image loads and has a name, the text is there, and nothing
// overflows, from the width of a phone to that of a wide screen.
func TestPagesInBrowser(t *testing.T) {
	findBrowser(t) // before any page is made
	all := map[string]string{}
	for name, p := range pages(t) {
		all[name] = html(t, p)
	}
	long := newDemo(1, 30, 9, 4, 9).page(t, 9, &explain.Options{Similar: 2})
	long.Classes = []string{"a class with quite a long name", strings.Repeat("unbroken", 12)}
	long.Model, long.Record.Command = strings.Repeat("path/", 60), strings.Repeat("x", 300)
	long.Report.Fit.Warnings = linearize.Warnings{errors.New(strings.Repeat("warning", 40))}
	all["long"] = html(t, long)
	// Outputs and features whose numbers are large, or tiny, under long names
	for name, factor := range map[string]float64{"large": 1e5, "tiny": 1e-13} {
		p := tablePage(t)
		scale := func(list ...*result.Float) {
			for _, x := range list {
				*x *= result.Float(factor)
			}
		}
		o := &p.Report.Outputs[0]
		scale(&p.Report.Input.Label, &p.Report.Prediction.Mean[0], &o.Network, &o.PriorMean, &o.ContributionSum, &o.Remainder)
		for _, l := range [][]result.Contribution{o.Contributions, o.For, o.Against, o.Similar} {
			for i := range l {
				scale(&l[i].Value, &l[i].Raw, &l[i].Removal, &l[i].Label)
				l[i].Index += 100000
			}
		}
		train := p.Train
		p.Train = func(row result.Index) result.Picture { return train(row % 100000) }
		p.Test.Names[0], p.Test.Names[1] = strings.Repeat("unbroken", 12), strings.Repeat("snake_case_", 9)
		all[name] = html(t, p)
	}
	var b strings.Builder
	require.NoError(t, newDemo(2, 60, 4, 4, 9).importances(24).WriteHTML(&b))
	all["importances"] = b.String()
	all["predictions"] = predictionHTML(t, drawnPage(3000, 300, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9))
	wide := drawnPage(300, 200)
	wide.Model, wide.Quantity = strings.Repeat("path/", 60), strings.Repeat("unbroken", 12)
	all["targets"] = predictionHTML(t, wide)
	b.Reset()
	evidence := evidencePage()
	evidence.Model, evidence.Optimum.Groups[0] = strings.Repeat("path/", 60), strings.Repeat("unbroken", 12)
	require.NoError(t, evidence.WriteHTML(&b))
	all["evidence"] = b.String()
	all["lists"] = listHTMLOf(t, listPage())
	for name, page := range all {
		t.Run(name, func(t *testing.T) {
			list := look(t, page)
			require.Len(t, list, 5)
			for _, s := range list {
				require.Equal(t, strings.Count(page, "<img "), s.Images)
				require.Zero(t, s.Broken, "images that do not show at %d", s.Width)
				require.Zero(t, s.Unnamed, "images without a name")
				require.Empty(t, s.Wide, "sticks out at %d", s.Width)
				require.LessOrEqual(t, s.Scroll, s.Width)
				require.Empty(t, s.Torn, "numbers broken or cut at %d", s.Width)
				require.Contains(t, s.Text, "The model behind it")
			}
			if name == "right" {
				require.Contains(t, list[0].Text, "Why 9 rather than 4")
				require.Contains(t, list[0].Text, "averaged over the networks that fit the training data → 0.986")
			}
		})
	}
}
