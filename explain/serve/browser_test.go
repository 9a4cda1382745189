package serve

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// A tab is a browser's with a page of the server.
type tab struct {
	*testing.T
	ctx    context.Context
	server string

	mutex sync.Mutex
	urls  []string // of all requests
	says  []string // errors, and whatever is written to the console
}

// open opens the page of a server in a browser without a window, of this size. It skips
// the test where none is installed, and in the short run.
func open(t *testing.T, s *Server, width, height int64) *tab {
	t.Helper()
	testref.Long(t, "the page is opened in a browser in the long run")
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			browser = found
			break
		}
	}
	if browser == "" {
		t.Skip("no chromium is installed: the page was not opened in a browser")
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(end)
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.ExecPath(browser), chromedp.UserDataDir(t.TempDir()))
	ctx, end = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(func() { _ = chromedp.Cancel(ctx); end() }) // the browser ends before its folder goes
	tb := &tab{T: t, ctx: ctx, server: server.URL}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		tb.mutex.Lock()
		defer tb.mutex.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			tb.urls = append(tb.urls, e.Request.URL)
		case *runtime.EventExceptionThrown:
			tb.says = append(tb.says, "exception: "+e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			tb.says = append(tb.says, fmt.Sprintf("console: %v", e.Type))
		}
	}))
	tb.do(chromedp.EmulateViewport(width, height), chromedp.Navigate(server.URL+"/"))
	return tb
}

func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	require.NoError(t, chromedp.Do(t.ctx, steps...))
}

// wait waits until an expression of the page is true.
func (t *tab) wait(expression string) {
	t.Helper()
	_, err := chromedp.Run(t.ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(time.Minute), chromedp.WithPollingInterval(20*time.Millisecond)))
	require.NoError(t, err, "%s; the page says %v", expression, t.says)
}

// answered waits until the page shows the answer to its last question.
func (t *tab) answered() {
	t.Helper()
	t.wait(`!running && document.querySelectorAll(".sides li").length > 0`)
}

func (t *tab) text(selector string) string {
	t.Helper()
	text, err := chromedp.Run(t.ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q).innerText", selector)))
	require.NoError(t, err)
	return text
}

func (t *tab) number(expression string) float64 {
	t.Helper()
	return testref.Must(chromedp.Run(t.ctx, chromedp.Evaluate[float64](expression)))(t)
}

// picture keeps a screenshot where go test -artifacts asks for files.
func (t *tab) picture(name string) {
	t.Helper()
	b := testref.Must(chromedp.Run(t.ctx, chromedp.FullScreenshot(100)))(t)
	require.NoError(t, os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), b, 0o600))
}

// fits requires that nothing sticks out to the side, that every picture shows, and that
// everything to press has a name.
func (t *tab) fits() {
	t.Helper()
	t.wait(`[...document.images].every(i => i.complete)`)
	wide, err := chromedp.Run(t.ctx, chromedp.Evaluate[[]string](`[...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5).map(e => e.tagName + "#" + e.id + "." + e.className)`))
	require.NoError(t, err)
	require.Empty(t, wide, "sticks out")
	require.LessOrEqual(t, t.number(`document.documentElement.scrollWidth`), t.number(`document.documentElement.clientWidth`))
	require.Zero(t, t.number(`[...document.images].filter(i => i.getAttribute("src") && i.naturalWidth === 0).length`), "pictures that do not show")
	require.Zero(t, t.number(`[...document.querySelectorAll("button")].filter(b => !b.innerText.trim() && !b.getAttribute("aria-label") && b.offsetParent).length`), "buttons without a name")
}

// ends requires that nothing came from elsewhere, and that nothing went wrong.
func (t *tab) ends() {
	t.Helper()
	t.mutex.Lock()
	defer t.mutex.Unlock()
	require.Greater(t, len(t.urls), 5)
	for _, url := range t.urls {
		require.True(t, strings.HasPrefix(url, t.server+"/") || strings.HasPrefix(url, "data:"), "the page asked for %s", url)
	}
	require.Empty(t, t.says)
}

// draw draws lines on the canvas, between points in shares of its side.
func (t *tab) draw(lines ...[][2]float64) {
	t.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](`document.getElementById("canvas").scrollIntoView({block: "center"})`))
	left, top, side := t.number(`canvas.getBoundingClientRect().left`), t.number(`canvas.getBoundingClientRect().top`), t.number(`canvas.getBoundingClientRect().width`)
	at := func(p [2]float64) (x, y float64) { return left + p[0]*side, top + p[1]*side }
	for _, line := range lines {
		x, y := at(line[0])
		t.do(chromedp.MouseEvent(chromedp.MousePressed, x, y, chromedp.ButtonLeft))
		for i := 1; i < len(line); i++ {
			for k := range 5 {
				f := float64(k+1) / 5
				x, y = at([2]float64{line[i-1][0] + f*(line[i][0]-line[i-1][0]), line[i-1][1] + f*(line[i][1]-line[i-1][1])})
				t.do(chromedp.MouseEvent(chromedp.MouseMoved, x, y, chromedp.ButtonLeft))
			}
		}
		t.do(chromedp.MouseEvent(chromedp.MouseReleased, x, y, chromedp.ButtonLeft))
	}
}

// four and nine are drawings of these digits.
var (
	four = [][][2]float64{{{.38, .2}, {.3, .52}, {.68, .52}}, {{.64, .22}, {.62, .85}}}
	nine = [][][2]float64{{{.62, .3}, {.48, .2}, {.36, .3}, {.4, .46}, {.55, .46}, {.62, .3}, {.6, .6}, {.52, .85}}}
)

// A person chooses a test row, takes examples out, draws and uploads, on a screen and on a
// phone. Nothing comes from anywhere but the server.
func TestPage(t *testing.T) {
	s := newServer(t, "--data", "digits:2000,200", "--classes", "4,9", "--train-count", "300")
	for name, width := range map[string]int64{"screen": 1200, "phone": 390} {
		t.Run(name, func(t *testing.T) {
			p := open(t, s, width, 900)
			p.answered()
			require.Regexp(t, `^Predicted [49]$`, p.text("#head"))
			require.Regexp(t, `^with probability 0\.\d+ ± 0\.\d+$`, p.text("#sure"))
			require.Contains(t, p.text("#says"), "A score is what one training example adds to the log-odds of")
			require.EqualValues(t, 16, p.number(`document.querySelectorAll(".sides li").length`))
			p.fits()
			p.picture("row")

			before := p.text("#classes")
			for range 3 {
				p.do(chromedp.Click("#for button[aria-pressed=false]"))
				p.answered()
			}
			require.Contains(t, p.text("#without-text"), "Without these 3 examples, the probability of")
			require.NotEqual(t, before, p.text("#classes"))
			require.EqualValues(t, 3, p.number(`document.querySelectorAll("#chips button").length`))
			p.fits()
			p.picture("without")
			p.do(chromedp.Click("#restore"))
			p.answered()
			require.Equal(t, before, p.text("#classes"))

			p.do(chromedp.Click("#tab-draw"))
			p.draw(four...)
			p.answered()
			require.Contains(t, p.text("#head"), "Predicted 4")
			require.Contains(t, p.text("#notes"), "centre of mass")
			p.fits()
			p.picture("drawn")
			p.do(chromedp.Click("#draw-clear"))
			p.draw(nine...)
			p.answered()
			require.Regexp(t, `^(Predicted 9|9 or 4)`, p.text("#head"))

			// With the keyboard: a bar down.
			p.do(chromedp.Click("#draw-clear"), chromedp.Focus("#canvas"), chromedp.KeyEvent(" "))
			for range 12 {
				p.do(chromedp.KeyEvent(kb.ArrowDown))
			}
			p.answered()
			require.EqualValues(t, 13, p.number(`strokes[0].length`))

			p.do(chromedp.Click("#tab-file"))
			file := filepath.Join(t.TempDir(), "digit.png")
			row := int(get[rows](t, s, "GET", "/v1/rows", "").Rows[0].Index)
			require.NoError(t, os.WriteFile(file, ask(s, "GET", fmt.Sprintf("/v1/test/%d/picture", row), "", "").Body.Bytes(), 0o600))
			p.do(chromedp.SetUploadFiles("#file", []string{file}))
			p.wait(`document.getElementById("drop-text").textContent === "digit.png"`)
			p.answered()
			p.fits()
			p.ends()
		})
	}
}

// A script in the name of a class, a row, a column or a file is shown and does not run.
func TestPageEscapes(t *testing.T) {
	hostile := `<img src=x onerror="window.ran=1"><script>window.ran=1</script>`
	s := newServer(t, tableOfNames(t, hostile)...)
	p := open(t, s, 1000, 800)
	p.answered()
	require.Contains(t, p.text("#head"), hostile)
	require.Contains(t, p.text("#for"), hostile)
	require.Contains(t, p.text("#rows"), hostile)
	require.Contains(t, p.text("#features"), hostile)
	file := filepath.Join(t.TempDir(), "<img src=x onerror=window.ran=1>.csv")
	require.NoError(t, os.WriteFile(file, []byte("1,2\n"), 0o600))
	p.do(chromedp.Click("#tab-file"), chromedp.SetUploadFiles("#file", []string{file}))
	p.wait(`document.getElementById("drop-text").textContent.startsWith("<img")`)
	p.answered()
	p.do(chromedp.Click("#against button"))
	p.answered()
	file = filepath.Join(t.TempDir(), "words.csv")
	require.NoError(t, os.WriteFile(file, []byte("<script>window.ran=1</script>,2\n"), 0o600))
	p.do(chromedp.SetUploadFiles("#file", []string{file}))
	p.wait(`!document.getElementById("error").hidden`)
	require.Contains(t, p.text("#error"), "script")
	p.picture("names")
	require.Zero(t, p.number(`window.ran || 0`))
	// An address that is no path of the server is not shown as HTML either.
	p.do(chromedp.Navigate(p.server + "/<script>window.ran=1</script>"))
	require.Zero(t, p.number(`window.ran || 0`))
	p.ends()
}
