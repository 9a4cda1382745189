package console

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// A progress shows a bar with an estimate of the remaining time if its output is a terminal, and
// nothing otherwise. A nil progress shows nothing.
type progress struct {
	out   io.Writer // nil shows nothing
	stage string
	bar   *progressbar.ProgressBar
}

func newProgress(stderr io.Writer, quiet bool) *progress {
	f, ok := stderr.(*os.File)
	if quiet || !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{out: stderr}
}

// show reports that done of total steps of a stage are done; a total of 0 is
// unknown. It is called from one goroutine.
func (p *progress) show(stage string, done, total int) {
	if p == nil || p.out == nil {
		return
	}
	if p.bar == nil || p.stage != stage {
		p.clear()
		most := total
		if total < 1 {
			most = -1
		}
		p.stage, p.bar = stage, progressbar.NewOptions(most,
			progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription(stage),
			progressbar.OptionSetPredictTime(true), progressbar.OptionThrottle(100*time.Millisecond),
			progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30),
			// An interval of 0 keeps the bar from drawing in a goroutine of its own.
			progressbar.OptionSetSpinnerChangeInterval(0))
	}
	if total < 1 {
		p.bar.Describe(fmt.Sprintf("%s %d", stage, done))
		return
	}
	// Set only fails if writing to the terminal fails.
	_ = p.bar.Set(done)
}

// clear removes the bar.
func (p *progress) clear() {
	if p != nil && p.bar != nil {
		_ = p.bar.Clear()
		p.bar = nil
	}
}

// started is the time at which the package was initialized, shortly after the start of the process.
var started = time.Now()
