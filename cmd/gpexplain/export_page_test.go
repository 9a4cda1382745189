package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/internal/testref"
)

// TestExportPage opens the page of an exported graph in a browser without a network, draws a 4 and reads the answer.
func TestExportPage(t *testing.T) {
	runtime := os.Getenv("FUNCGP_ONNXRUNTIME")
	if runtime == "" {
		t.Skip("FUNCGP_ONNXRUNTIME is not the folder of npm's onnxruntime-web")
	}
	browser, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("no chromium is installed: the page was not opened in a browser")
	}
	dir := t.TempDir()
	page := filepath.Join(dir, "digits.html")
	ran := gpexplain(t.Context(), "export", "--method", "nystrom", "--inducing", "100", "-o", filepath.Join(dir, "digits.onnx"),
		"--page", page, "--runtime", runtime)
	require.Equal(t, 0, ran.code, ran.stderr)
	// A drawing whose first pixel is window.pixel, if that is set.
	html, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Contains(t, string(html), "if (!x) continue;")
	html = []byte(strings.Replace(string(html), "if (!x) continue;", "if (!x) continue; x[0] = window.pixel ?? x[0];", 1))
	require.NoError(t, os.WriteFile(page, html, 0o600))

	ctx, end := context.WithTimeout(t.Context(), 3*time.Minute)
	defer end()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.DisableGPU, chromedp.ExecPath(browser),
		chromedp.UserDataDir(t.TempDir()), chromedp.WindowSize(1000, 900))
	ctx, end = chromedp.NewExecAllocator(ctx, options...)
	defer end()
	ctx, end = chromedp.NewContext(ctx)
	defer func() { _ = chromedp.Cancel(ctx); end() }()
	draw := `(() => {
		const pad = document.getElementById("draw"), r = pad.getBoundingClientRect();
		const at = (type, x, y) => pad.dispatchEvent(new PointerEvent(type, {clientX: r.left + x, clientY: r.top + y, pointerId: 1, bubbles: true}));
		pad.setPointerCapture = () => {};
		const line = (...p) => { at("pointerdown", ...p[0]); for (const q of p.slice(1)) at("pointermove", ...q); at("pointerup", ...p.at(-1)); };
		line([95, 50], [85, 100], [80, 150], [130, 150], [190, 145]);
		line([185, 50], [180, 120], [175, 180], [170, 240]);
	})()`
	// Whatever the page asks of a network is an error.
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok && strings.HasPrefix(e.Request.URL, "http") {
			t.Errorf("the page asks for %s", e.Request.URL)
		}
	}))
	wait := func(expression string) {
		testref.Must(chromedp.Run(ctx, chromedp.Poll[bool](expression, chromedp.WithPollingTimeout(2*time.Minute))))(t)
	}
	text := func(id string) string {
		return testref.Must(chromedp.Run(ctx, chromedp.Evaluate[string](`document.getElementById("`+id+`").innerText`)))(t)
	}
	require.NoError(t, chromedp.Do(ctx, chromedp.Navigate("file://"+page)))
	wait(`!document.getElementById("state").textContent.startsWith("Loading")`)
	state := text("state")
	require.NoError(t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](draw)))
	wait(`document.querySelectorAll("#answer .bar").length === 2`)
	answer := text("answer")
	require.Contains(t, state, "Ready")
	require.Contains(t, answer, "Most probable: 4")
	require.Contains(t, answer, "Training rows that speak for 4 rather than 9")
	require.Contains(t, answer, "Novelty")
	require.Regexp(t, `\+0\.\d\d\n4, row \d+`, answer)
	// A pixel that is no number has no answer, of which no number is shown.
	require.NoError(t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](`window.pixel = NaN; undefined`)))
	require.NoError(t, chromedp.Do(ctx, chromedp.Evaluate[chromedp.Void](draw)))
	wait(`document.querySelectorAll("#answer .bar").length === 0`)
	none := text("answer")
	require.Contains(t, none, "There is no answer")
	require.NotRegexp(t, `\d`, none)
	if to := os.Getenv("FUNCGP_SCREENSHOT"); to != "" {
		require.NoError(t, os.WriteFile(to, testref.Must(chromedp.Run(ctx, chromedp.FullScreenshot(100)))(t), 0o600))
	}
}
