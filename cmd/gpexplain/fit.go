package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/gp"
)

type fitFlags struct {
	out    string
	inputs bool
	way
}

func fitVerb(inv *invocation) *cobra.Command {
	var e fitFlags
	v := &verb{
		name:  "fit",
		short: "Fit a posterior and write it to a file",
		long: `Fit computes the posterior of a model given its training rows and writes it to
a file, from which explain, predict and importances answer with --posterior.
With --method nystrom it takes data of any size: one pass over them through
inducing examples. It reports how far that is from exact.

With --tune-prior the precision suits predictions. The trained parameters are not
the optimum under it, so explanations have a large remainder: for those, fit at
the precision of training, or with --refit, where the sum is complete.

The file holds no training inputs unless --with-inputs asks for them; the model
and the data are needed again, and must be the same.`,
		example: `  gpexplain fit -o digits.gp
  gpexplain explain --posterior digits.gp --index 24
  gpexplain fit -o mnist.gp --model lenet.onnx --data mnist --method nystrom --inducing 200 --tune-prior`,
		flags: e.add, check: e.check, run: e.run,
		complete: wayValues(nil),
	}
	return v.command(inv)
}

func (e *fitFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&e.out, "out", "o", "", "write the posterior to `FILE`; needed")
	e.way.add(c)
	e.addRefit(c, false, "move to the optimum of the linearized model first, where explanations are complete")
	f.BoolVar(&e.tune, "tune-prior", false, "choose the prior precision of the posterior on rows that were not trained on: validation rows, or the last 5000 training rows that are left")
	f.StringVar(&e.checkpoint, "checkpoint", "", "keep the state of --method nystrom in `FILE` while it passes over the data, and go on from there where it exists")
	f.BoolVar(&e.inputs, "with-inputs", false, "put the training inputs into the file, so that the training data are not needed again")
}

func (e *fitFlags) check(s *shared) error {
	switch {
	case e.out == "":
		return usagef("-o FILE is needed: where to write the posterior")
	case e.tune && e.refit:
		return usagef("--tune-prior and --refit exclude each other: the optimum depends on the prior precision")
	case e.checkpoint != "" && e.method == "subset":
		return usagef("--checkpoint is for --method nystrom, not subset")
	}
	if err := e.way.check(s); err != nil {
		return err
	}
	return distinct([]flagPath{{"--out", e.out}, {"--checkpoint", e.checkpoint}}, s.reads())
}

// A fitReport is what fit prints with --json.
type fitReport struct {
	File    string         `json:"file"`
	Bytes   int64          `json:"bytes"`
	Trials  []fitTrial     `json:"trials,omitempty"` // of --tune-prior
	Fit     report.Fit     `json:"fit"`
	Timings report.Timings `json:"timings"`
}

type fitTrial struct {
	PriorPrecision report.Float `json:"prior_precision"`
	NLL            report.Float `json:"nll"`
}

func (e *fitFlags) run(ctx context.Context, sh *shared) error {
	for _, path := range []string{e.out, e.checkpoint} {
		if err := writable(path); err != nil {
			return err
		}
	}
	if err := e.readCheckpoint(gp.MemoryBudget(sh.bytes)); err != nil {
		return err
	}
	s, err := openSession(ctx, sh, &e.way)
	if err != nil {
		return err
	}
	p, err := s.posterior(ctx, &e.way)
	if err != nil {
		return err
	}
	r := &fitReport{File: e.out, Trials: p.trials, Fit: p.report()}
	if err := p.save(e.out, e.inputs); err != nil {
		return err
	}
	if err := e.removeCheckpoint(); err != nil {
		return err
	}
	// What has no size to tell, such as a pipe, is left at 0.
	if info, err := os.Stat(e.out); err == nil && info.Mode().IsRegular() {
		r.Bytes = info.Size()
	}
	s.watch.lap("write")
	r.Timings = s.watch.timings()
	if s.json {
		return json.NewEncoder(s.out).Encode(r)
	}
	return r.text(s.out, p)
}

// methodNames are the methods in words.
var methodNames = map[string]string{"exact": "exact", "subset": "subset-of-data", "nystrom": "Nyström", "cg": "exact (conjugate gradients)"}

func (r *fitReport) text(out io.Writer, p *posterior) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	f := &r.Fit
	fmt.Fprintf(w, "posterior\t%s, of %d training rows, %d outputs, %d parameters\n", methodNames[f.Method], f.Examples, f.Outputs, f.Parameters)
	tuned := ""
	if r.Trials != nil {
		tuned = fmt.Sprintf(", chosen on held-out rows: NLL %.4f, %.4f at %.4g", bestTrial(r.Trials), float64(r.Trials[0].NLL), p.delta)
	}
	fmt.Fprintf(w, "prior precision\t%.4g%s\n", float64(f.PriorPrecision), tuned)
	fmt.Fprintf(w, "log evidence\t%.6g%s\n", float64(f.LogEvidence), p.boundText())
	if a := f.Approximation; a != nil {
		approximationText(w, f, a)
	}
	size := ""
	if r.Bytes > 0 {
		size = ", " + sizeText(r.Bytes)
	}
	fmt.Fprintf(w, "wrote\t%s%s, in %.3g s\n", r.File, size, float64(r.Timings.Total))
	for _, warning := range f.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
	return w.Flush()
}

func bestTrial(trials []fitTrial) float64 {
	best := float64(trials[0].NLL)
	for _, t := range trials {
		best = min(best, float64(t.NLL))
	}
	return best
}

// boundText says how the evidence stands to the exact one.
func (p *posterior) boundText() string {
	switch {
	case p.method == "cg":
		return fmt.Sprintf(" ± %.2g", p.evidenceSE)
	case p.bound == gp.Upper:
		return ", not below the exact one"
	case p.bound == gp.Lower:
		return ", not above the exact one"
	case p.method == "subset":
		return " of the subset"
	case p.sparse():
		return ", above or below the exact one"
	}
	return ""
}

// approximationText is the error report.
func approximationText(w io.Writer, f *report.Fit, a *report.Approximation) {
	if a.MeanError != nil {
		fmt.Fprintf(w, "mean\tnowhere off by more than %.1e posterior standard deviations\n", float64(*a.MeanError))
	}
	if f.Inducing < 0 {
		return
	}
	fmt.Fprintf(w, "inducing examples\t%d by %s, %d outputs of rank %d\n", int(f.Inducing), a.Select, a.Rows, a.Rank)
	if f.TraceError.Finite() {
		fmt.Fprintf(w, "trace error\t%.3g of the prior variance of the training rows is not explained\n", float64(f.TraceError))
	}
	if a.ResidualMean != nil {
		fmt.Fprintf(w, "residual\t%.3g of the prior variance of %d test rows is not explained, %.3g at most\n", float64(*a.ResidualMean), a.TestRows, float64(*a.ResidualMax))
	}
	if s := a.Sample; s != nil {
		fmt.Fprintf(w, "against exact\ton a sample of %d training rows: mean off by %.2g sd (RMS), %.2g at most; variance × %.3f to %.3f, median %.3f\n", s.Examples,
			float64(s.ShiftRMS), float64(s.ShiftMax), float64(s.VarianceRatioMin), float64(s.VarianceRatioMax), float64(s.VarianceRatioMedian))
	}
}

func sizeText(bytes int64) string {
	switch {
	case bytes >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(bytes)/1e9)
	case bytes >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(bytes)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(bytes)/1e3)
}
