package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/store"
	"github.com/funcgp/funcgp/sparse/parts"
	"github.com/funcgp/funcgp/sparse/shard"
)

// addShard defines the flags that split a fit into parts.
func (s *fitVerb) addShard(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&s.selectOnly, "select-only", false, "write only the match, the mode there and the inducing examples of --method nystrom, once for all parts")
	f.StringVar(&s.inducing, "inducing-file", "", "with --shard: take the inducing examples, the match and the mode of `FILE`, which --select-only wrote, with its model and data")
	f.StringVar(&s.shard, "shard", "", "write part `I/N` of the sums over the training rows, 0/N to N-1/N, for gpexplain merge")
}

// partFlags are the flags with which explain and audit write a part of their results.
type partFlags struct {
	text, out string
	part      shard.Part // parsed from text
}

func (s *partFlags) add(c *cobra.Command, usage string) {
	f := c.Flags()
	f.StringVar(&s.text, "shard", "", usage)
	f.StringVarP(&s.out, "out", "o", "", "with --shard: write the part to `FILE`")
}

// rules returns the rules of the flags for a part. none lists the flags that exclude --shard.
func (s *partFlags) rules(none ...string) []flags.Rule {
	return []flags.Rule{
		flags.For("shard", "", "out"),
		flags.Needs("shard", "out", ": where to write the part"),
		flags.Needs("shard", "posterior", ", which all parts have in common"),
		flags.Not("shard", ": a part has none; leave it out", none...),
	}
}

// parse reads --shard.
func (s *partFlags) parse() (err error) {
	if s.text != "" {
		s.part, err = parsePart(s.text)
	}
	return err
}

func parsePart(text string) (shard.Part, error) {
	part, err := shard.ParsePart(text)
	if err != nil {
		return part, job.Usagef("--shard %s", strings.TrimPrefix(err.Error(), "shard: "))
	}
	return part, nil
}

// pass selects the inducing examples, or computes one part of the pass that a file describes.
func (s *fitVerb) pass(ctx context.Context, c *console.Console) error {
	pass, err := s.openPass(ctx)
	if err != nil {
		return err
	}
	var r *result.Part
	if s.selectOnly {
		r, err = pass.Save(ctx, s.out)
	} else {
		r, err = pass.WritePart(ctx, s.part, s.out)
	}
	if err != nil {
		return err
	}
	r.Timings = c.Timings()
	if c.JSON {
		return json.NewEncoder(c.Out).Encode(r)
	}
	what := fmt.Sprintf("%d inducing examples or rows of %d training rows, rank %d of %d", r.Inducing, r.Examples, r.Rank, r.Rows)
	if r.Part != "" {
		what = fmt.Sprintf("part %s, %d training rows from the %s", r.Part, r.Examples, ordinal(*r.First))
	}
	_, err = fmt.Fprintf(c.Out, "wrote %s: %s, %s, in %.3g s\n", r.File, what, job.SizeText(r.Bytes), float64(r.Timings.Total))
	return err
}

// ordinal names the training row at position i, counted from 0.
func ordinal(i int) string { return fmt.Sprintf("one at position %d", i) }

// openPass selects the inducing examples, or reads them from --inducing-file.
func (s *fitVerb) openPass(ctx context.Context) (*funcgp.Pass, error) {
	if s.selectOnly {
		o := s.common.Fit
		o.Method.Name = "nystrom"
		return funcgp.NewPass(ctx, s.common.Model, s.common.Data, &o)
	}
	return funcgp.OpenPass(ctx, s.inducing, s.common.Options())
}

type mergeVerb struct {
	common  flags.Common
	missing bool

	parts         []string
	out, inducing string
}

func mergeCommand(con *console.Console) *cobra.Command {
	s := &mergeVerb{}
	v := &verb{
		name:  "merge",
		short: "Merge the parts of a fit, an explanation or an audit that was split over processes or machines",
		long: `Merge makes a posterior of all PARTS, which gpexplain fit --shard wrote, and writes
it to a file as fit does. It adds them in the order of their numbers, so that the order of the
files says nothing, and reads one at a time. Of parts that explain --shard or audit --shard
wrote it prints what explain or audit prints.

A part that is missing, there twice, damaged, or of another model, prior, data or inducing set
is refused by the name of its file. The model and the data are needed again, for the
calibration and for the dual vector of explanations.

With --missing, merge writes nothing but the numbers of the parts that are to be computed, as
sbatch --array takes them, such as 3,7-9, and no line where all are there. It reads the files
whole; one that is damaged, not there or of another pass counts as missing, and is named on
standard error. One file at least must say how many parts there are.`,
		example: `  gpexplain fit --select-only --inducing 200 -o z.gp
  gpexplain fit --inducing-file z.gp --shard 0/2 -o part0.sums
  gpexplain fit --inducing-file z.gp --shard 1/2 -o part1.sums
  gpexplain merge --missing part0.sums part1.sums
  gpexplain merge part0.sums part1.sums -o all.gp
  gpexplain explain --posterior all.gp --index 24 --shard 0/2 -o part0.terms
  gpexplain explain --posterior all.gp --index 24 --shard 1/2 -o part1.terms
  gpexplain merge part0.terms part1.terms`,
		flags: s.add, run: s.run, writes: []string{"out"}, rules: []flags.Rule{flags.Not("missing", "", "out", "inducing-file", "calibrate", "json")}, operand: "PARTS", several: true,
		take: func(path string) error {
			s.parts = append(s.parts, path)
			return nil
		},
	}
	return v.command(con, &s.common)
}

func (s *mergeVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVarP(&s.out, "out", "o", "", "write the posterior of all parts of a fit to `FILE`; needed for those")
	f.StringVar(&s.inducing, "inducing-file", "", "what fit --select-only wrote, with which the parts were computed, is in `FILE` (default where it was)")
	f.BoolVar(&s.missing, "missing", false, "print the numbers of the parts that none of PARTS holds, and do no more")
	flags.Define(c, "calibrate")
}

func (s *mergeVerb) run(ctx context.Context, c *console.Console) error {
	terms, scores := slices.ContainsFunc(s.parts, parts.IsTerms), slices.ContainsFunc(s.parts, parts.IsAudit)
	switch {
	case s.missing:
		return s.printMissing(ctx, c, terms, scores)
	case (terms || scores) && (s.out != "" || s.inducing != ""):
		return job.Usagef("-o and --inducing-file are for parts of a fit; those of an explanation or an audit are printed")
	case terms:
		merged, err := parts.MergeTerms(ctx, s.parts)
		if err != nil {
			return err
		}
		q, posterior := merged.Question()
		v := &explainVerb{common: s.common, which: funcgp.Query(q.Rows), o: funcgp.ExplainOptions{Top: q.Top, Merged: merged.Explanations()}, terms: q.Terms, contrast: q.Contrast}
		if v.common.File = posterior; q.Calibrate == "none" {
			v.common.Fit.Calibrate = q.Calibrate
		}
		return v.run(ctx, c)
	case scores:
		merged, err := parts.MergeAudit(ctx, s.parts)
		if err != nil {
			return err
		}
		q, posterior := merged.Question()
		v := &auditVerb{common: s.common, top: q.Top, merged: merged}
		if v.common.File = posterior; q.Calibrate == "none" {
			v.common.Fit.Calibrate = q.Calibrate
		}
		return v.run(ctx, c)
	}
	if _, err := os.Stat(s.parts[0]); s.out == "" && err == nil { // which may be a part of either
		return job.Usagef("-o FILE is needed: where to write the posterior of all parts")
	}
	post, err := funcgp.Merge(ctx, s.parts, nil, s.inducing, filepath.Dir(s.out), s.common.Options())
	if err != nil {
		return err
	}
	r := &result.Saved{Schema: "funcgp/fit/1", File: s.out, Fit: post.Report(ctx)}
	if err := post.Save(ctx, s.out, nil); err != nil {
		return err
	}
	return printSaved(c, r)
}

// printMissing prints the numbers of the parts that no file holds completely. A file that cannot be merged is
// noted and left out. The other files must all belong to one pass.
func (s *mergeVerb) printMissing(ctx context.Context, c *console.Console, terms, scores bool) error {
	whole := func(path string) error {
		f, err := store.Open(path, shard.Kind, shard.Version)
		if err != nil {
			return err
		}
		return errors.Join(f.Check(), f.Close())
	}
	all := func(files []string) error { _, err := shard.Open(files); return err }
	switch {
	case terms:
		whole = func(path string) error { _, err := parts.ReadTerms(path); return err }
		all = func(files []string) error { _, err := parts.MergeTerms(ctx, files); return err }
	case scores:
		whole = func(path string) error { _, err := parts.ReadAudit(path); return err }
		all = func(files []string) error { _, err := parts.MergeAudit(ctx, files); return err }
	}
	files, read := slices.Clone(s.parts), 0 // so many of them were read and are whole
	for {
		err := ctx.Err()
		for ; err == nil && read < len(files); read++ {
			err = whole(files[read])
		}
		if err == nil {
			err = all(files)
		}
		if gone, ok := errors.AsType[*shard.MissingError](err); ok {
			_, err := fmt.Fprintln(c.Out, arrayText(gone.Numbers))
			return err
		}
		bad, ok := errors.AsType[*store.Error](err)
		if !ok || !slices.Contains(files, bad.File) || len(files) == 1 { // the last could tell how many parts there are
			return err
		}
		c.Note("gpexplain: %v", err)
		at := slices.Index(files, bad.File)
		files, read = slices.Delete(files, at, at+1), read-1
	}
}

// arrayText formats ascending numbers as sbatch --array takes them, such as 3,7-9.
func arrayText(numbers []int) string {
	var text strings.Builder
	for i, n := range numbers {
		switch before, after := i > 0 && numbers[i-1] == n-1, i+1 < len(numbers) && numbers[i+1] == n+1; {
		case !before:
			fmt.Fprintf(&text, ",%d", n)
		case !after:
			fmt.Fprintf(&text, "-%d", n)
		}
	}
	return strings.TrimPrefix(text.String(), ",")
}
