package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp/cmd/gpexplain/internal/console"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/inference"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/problem"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/sparse/shard"
)

// shardFlags split a fit into parts.
type shardFlags struct {
	selectOnly     bool
	inducing, text string
	part           shard.Part // parsed from text
}

func (s *shardFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&s.selectOnly, "select-only", false, "write only the inducing examples of --method nystrom or fitc, for --inducing-file")
	f.StringVar(&s.inducing, "inducing-file", "", "with --shard: take the inducing examples of `FILE`, which --select-only wrote, with its model, data and prior (default every part selects the same ones)")
	f.StringVar(&s.text, "shard", "", "write part `I/N` of the sums over the training rows, 0/N to N-1/N, for gpexplain merge")
}

// asked tells whether anything but a whole posterior is wanted.
func (s *shardFlags) asked() bool { return s.selectOnly || s.text != "" }

// check refuses flags that do not go with a part of a fit. A part is one of --method nystrom
// where that is not given.
func (s *shardFlags) check(c *cobra.Command, m *inference.Flags) error {
	f := c.Flags()
	switch {
	case s.selectOnly && s.text != "":
		return console.Usagef("--select-only and --shard exclude each other: select once, then compute parts with --inducing-file")
	case s.inducing != "" && s.text == "":
		return console.Usagef("--inducing-file is for --shard I/N; give it too")
	case !s.asked():
		return nil
	}
	flag := "--select-only"
	if s.text != "" {
		flag = "--shard"
		var err error
		if s.part, err = shard.ParsePart(s.text); err != nil {
			return console.Usagef("--shard %s", strings.TrimPrefix(err.Error(), "shard: "))
		}
	}
	for _, name := range []string{"posterior", "without", "append", "checkpoint", "tune-prior", "within", "with-inputs"} {
		if f.Changed(name) {
			return console.Usagef("%s is for a pass over all rows through inducing examples in parts, which --%s is not for; leave one of them out", flag, name)
		}
	}
	if f.Changed("calibrate") {
		return console.Usagef("--calibrate is for gpexplain merge, which has all parts; give it there")
	}
	if s.inducing != "" {
		return inference.CheckSaid(c, "inducing-file")
	}
	if !f.Changed("method") {
		m.Method = "nystrom"
	}
	if !problem.ThroughInducing(m.Method) {
		return console.Usagef("%s is for --method nystrom or fitc, not %s", flag, m.Method)
	}
	return nil
}

// A partReport is what fit --select-only and fit --shard print with --json.
type partReport struct {
	Schema   string         `json:"schema"`
	File     string         `json:"file"`
	Bytes    int64          `json:"bytes"`
	Part     string         `json:"part,omitempty"` // I/N
	First    *int           `json:"first,omitempty"`
	Examples int            `json:"examples"` // of the part, or of all rows
	Inducing int            `json:"inducing"`
	Rows     int            `json:"rows"`
	Rank     int            `json:"rank"`
	Timings  report.Timings `json:"timings"`
}

// runShard selects inducing examples, or computes a part of the sums.
func (s *fitVerb) runShard(ctx context.Context, c *console.Console) error {
	p, err := problem.OpenFile(ctx, c, &s.common, s.shard.inducing, problem.InducingFile)
	if err != nil {
		return err
	}
	pass, err := s.pass(ctx, c, p)
	if err != nil {
		return err
	}
	r := &partReport{Schema: "funcgp/part/1", File: s.out, Examples: p.Examples.Train.Len(), Inducing: pass.Inducing()}
	r.Rank, r.Rows = pass.Rank()
	if s.shard.selectOnly {
		err = pass.Save(ctx, s.out, s.common.Data.Split)
	} else {
		var lo, hi int
		lo, hi, err = pass.WritePart(ctx, s.shard.part, s.out, s.common.Data.Split)
		r.Part, r.First, r.Examples = s.shard.part.String(), &lo, hi-lo
	}
	if err != nil {
		return err
	}
	r.Bytes, r.Timings = regularSize(s.out), c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	return r.text(c)
}

// pass selects the inducing examples, or reads them from the problem's file.
func (s *fitVerb) pass(ctx context.Context, c *console.Console, p *problem.Problem) (*inference.Pass, error) {
	if p.Saved != nil {
		return inference.LoadPass(ctx, c, p)
	}
	p, err := p.Grouped(ctx, c)
	if err != nil {
		return nil, err
	}
	return inference.NewPass(ctx, c, p, &s.posterior)
}

// text prints the report.
func (r *partReport) text(c *console.Console) error {
	what := fmt.Sprintf("%d inducing examples or rows of %d training rows, rank %d of %d", r.Inducing, r.Examples, r.Rank, r.Rows)
	if r.Part != "" {
		what = fmt.Sprintf("part %s, %d training rows from the %s", r.Part, r.Examples, ordinal(*r.First))
	}
	_, err := fmt.Fprintf(c.Out, "wrote %s: %s, %s, in %.3g s\n", r.File, what, problem.SizeText(r.Bytes), float64(r.Timings.Total))
	return err
}

// ordinal says which of the training rows is the first, counted from 0.
func ordinal(i int) string { return fmt.Sprintf("one at position %d", i) }

type mergeVerb struct {
	common      problem.Flags
	calibration inference.CalibrationFlags

	parts         []string
	out, inducing string
}

func mergeCommand(con *console.Console) *cobra.Command {
	s := &mergeVerb{}
	v := &verb{
		name:  "merge",
		short: "Merge the parts of a fit that was split over processes or machines",
		long: `Merge makes a posterior of all PARTS, which gpexplain fit --shard wrote, and writes
it to a file as fit does. It adds them in the order of their numbers, so that the order of the
files says nothing, and reads one at a time.

A part that is missing, there twice, damaged, or of another model, prior, data or inducing set
is refused by the name of its file. The model and the data are needed again, for the
calibration and for the dual vector of explanations.`,
		example: `  gpexplain fit --shard 0/2 -o part0.sums
  gpexplain fit --shard 1/2 -o part1.sums
  gpexplain merge part0.sums part1.sums -o all.gp
  gpexplain explain --posterior all.gp`,
		flags: s.add, check: s.check, run: s.run, operand: "PARTS", several: true,
		take: func(path string) error {
			s.parts = append(s.parts, path)
			return nil
		},
		complete: map[string][]string{"calibrate": inference.Calibrations},
	}
	return v.command(con, &s.common)
}

func (s *mergeVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.out, "out", "o", "", "write the posterior of all parts to `FILE`; needed")
	f.StringVar(&s.inducing, "inducing-file", "", "the inducing examples that the parts were computed with are in `FILE` (default where they were)")
	s.calibration.Add(c)
}

func (s *mergeVerb) check(c *cobra.Command) error {
	if s.out == "" {
		return console.Usagef("-o FILE is needed: where to write the posterior of all parts")
	}
	if err := inference.CheckSaid(c, ""); err != nil {
		return err
	}
	if err := s.calibration.Check(c, ""); err != nil {
		return err
	}
	inputs := append(s.common.Files(), console.FlagPath{Flag: "--inducing-file", Path: s.inducing})
	for _, part := range s.parts {
		inputs = append(inputs, console.FlagPath{Flag: "PARTS", Path: part})
	}
	return console.Distinct([]console.FlagPath{{Flag: "--out", Path: s.out}}, inputs)
}

func (s *mergeVerb) run(ctx context.Context, c *console.Console) error {
	if err := console.Writable(s.out); err != nil {
		return err
	}
	set, err := shard.Open(s.parts)
	if err != nil {
		return err
	}
	p, err := problem.OpenFile(ctx, c, &s.common, set.Paths()[0], problem.ShardFile)
	if err != nil {
		return err
	}
	pass, err := inference.MergePass(ctx, c, p, s.inducing)
	if err != nil {
		return err
	}
	q, err := pass.Merge(ctx, set, s.out, s.calibration.Method)
	if err != nil {
		return err
	}
	r := &fitReport{Schema: "funcgp/fit/1", File: s.out, Fit: q.Report(p, c.Warnings)}
	if err := q.Save(ctx, s.out, p, r.Fit, false, s.common.Data.Split); err != nil {
		return err
	}
	return r.print(c, q)
}
