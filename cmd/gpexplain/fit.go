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

type fitVerb struct {
	common    commonFlags
	posterior posteriorFlags

	calibration calibrationFlags

	out, checkpoint string
	inputs          bool
}

func fitCommand(con *console) *cobra.Command {
	s := &fitVerb{}
	v := &verb{
		name:  "fit",
		short: "Fit a posterior and write it to a file",
		long: `Fit computes the posterior of a model given its training rows and writes it to
a file, from which explain, predict and importances answer with --posterior.
With --method nystrom it takes data of any size: one pass over them through
inducing examples. It reports how far that is from exact.

Where the trained parameters are no optimum at the prior precision, as after
training without weight decay, the posterior is that of a refit.

With --tune-prior the precision suits predictions: --tune-prior loo needs no
held-out rows. The posterior then differs from the network, which was trained at
another precision: it says by how much. For explanations of the network itself
fit at the precision of training.

The file holds no training inputs unless --with-inputs asks for them; the model
and the data are needed again, and must be the same.`,
		example: `  gpexplain fit -o digits.gp
  gpexplain explain --posterior digits.gp --index 24
  gpexplain fit -o mnist.gp --model lenet.onnx --data mnist --method nystrom --inducing 200 --tune-prior`,
		flags: s.add, check: s.check, run: s.run,
		complete: methodValues(map[string][]string{"calibrate": calibrations}),
	}
	return v.command(con, &s.common)
}

func (s *fitVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.out, "out", "o", "", "write the posterior to `FILE`; needed")
	s.posterior.add(c)
	s.posterior.addRefit(c, false, "move to the optimum of the linearized model first, where explanations are complete (default only where the trained parameters are no optimum)")
	s.calibration.add(c)
	s.posterior.addTune(c)
	f.StringVar(&s.checkpoint, "checkpoint", "", "keep the state of --method nystrom in `FILE` while it passes over the data, and go on from there where it exists")
	f.BoolVar(&s.inputs, "with-inputs", false, "put the training inputs into the file, so that the training data are not needed again")
}

func (s *fitVerb) check(c *cobra.Command) error {
	switch {
	case s.out == "":
		return usagef("-o FILE is needed: where to write the posterior")
	case s.checkpoint != "" && s.posterior.method == "subset":
		return usagef("--checkpoint is for --method nystrom, not subset")
	}
	if err := s.posterior.check(c); err != nil {
		return err
	}
	if err := s.calibration.check(c, ""); err != nil {
		return err
	}
	return distinct([]flagPath{{"--out", s.out}, {"--checkpoint", s.checkpoint}}, s.common.files())
}

// A fitReport is what fit prints with --json.
type fitReport struct {
	Schema  string         `json:"schema"`
	File    string         `json:"file"`
	Bytes   int64          `json:"bytes"`
	Trials  []report.Trial `json:"trials,omitempty"` // of --tune-prior
	Fit     report.Fit     `json:"fit"`
	Timings report.Timings `json:"timings"`
}

func (s *fitVerb) run(ctx context.Context, c *console) error {
	for _, path := range []string{s.out, s.checkpoint} {
		if err := writable(path); err != nil {
			return err
		}
	}
	o := fitOptions{checkpoint: s.checkpoint}
	var err error
	if o.resume, err = readCheckpoint(s.checkpoint, gp.MemoryBudget(s.common.limits.memory)); err != nil {
		return err
	}
	p, err := openProblem(ctx, c, &s.common, "")
	if err != nil {
		return err
	}
	q, err := fitCalibrated(ctx, c, p, &s.posterior, o, s.calibration.method)
	if err != nil {
		return err
	}
	r := &fitReport{Schema: "funcgp/fit/1", File: s.out, Fit: q.report(p, c.warnings)}
	if q.tuning != nil {
		r.Trials = q.tuning.Trials
	}
	if err := q.save(s.out, p, r.Fit, s.inputs, s.common.data.split); err != nil {
		return err
	}
	if err := removeCheckpoint(s.checkpoint); err != nil {
		return err
	}
	// What has no size to tell, such as a pipe, is left at 0.
	if info, err := os.Stat(s.out); err == nil && info.Mode().IsRegular() {
		r.Bytes = info.Size()
	}
	r.Timings = c.timings()
	if c.json {
		return json.NewEncoder(c.out).Encode(r)
	}
	return r.text(c.out, q)
}

// methodNames are the methods in words.
var methodNames = map[string]string{"exact": "exact", "subset": "subset-of-data", "nystrom": "Nyström", "cg": "exact (conjugate gradients)"}

// text prints the report.
func (r *fitReport) text(out io.Writer, q *posterior) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	f := &r.Fit
	fmt.Fprintf(w, "posterior\t%s, of %d training rows, %d outputs, %d parameters\n", methodNames[f.Method], f.Examples, f.Outputs, f.Parameters)
	if f.Tuning != nil {
		fmt.Fprintf(w, "prior precision\t%s\n", tuningText(f.Tuning, float64(f.PriorPrecision)))
	} else {
		fmt.Fprintf(w, "prior precision\t%.4g\n", float64(f.PriorPrecision))
	}
	fmt.Fprintf(w, "log evidence\t%.6g%s\n", float64(f.LogEvidence), q.boundText())
	if a := f.Approximation; a != nil {
		approximationText(w, f, a)
	}
	if k := q.calibration; k != nil {
		fmt.Fprintf(w, "calibration\t%s\n", k.text())
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

// boundText says how the evidence stands to the exact one.
func (q *posterior) boundText() string {
	switch {
	case q.how.name == "cg":
		return fmt.Sprintf(" ± %.2g", q.evidence.StdErr)
	case q.evidence.Bound == gp.Upper:
		return ", not below the exact one"
	case q.evidence.Bound == gp.Lower:
		return ", not above the exact one"
	case q.how.name == "subset":
		return " of the subset"
	case isSparse(q.how.name):
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
