package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/audit"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/linearize"
)

type acquireVerb struct {
	common flags.Common

	pool, csv  string
	top, batch int
}

func acquireCommand(con *console.Console) *cobra.Command {
	s := &acquireVerb{}
	v := &verb{
		name:  "acquire",
		short: "Rank unlabelled rows by what a label would tell",
		long: `Acquire ranks the rows of a pool by their expected information gain: how much a
label of the row would tell about the function. With --batch it chooses rows whose
labels tell much together, one after the other, each given the labels of those before.
Labels of the pool are not used.`,
		example: `  gpexplain acquire --train-count 60 --pool digits:400,100 --data digits:400,100 --batch 5
  gpexplain fit --train-count 60 -o digits.gp
  gpexplain acquire --posterior digits.gp --pool digits:400,100 --top 50 --csv ranking.csv`,
		flags: s.add, run: s.run, writes: []string{"csv"}, reads: []string{"pool"},
		rules: []flags.Rule{
			flags.Needed("pool", "the rows that a label may be asked for"),
			flags.AtLeast(1, "top"),
			flags.AtLeast(0, "batch"),
		},
	}
	return v.command(con, &s.common)
}

func (s *acquireVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.pool, "pool", "", "rank the rows of `DATA`: a table, NumPy's arrays, pictures or a folder of them, as --input of predict takes, or the training rows of digits, mnist or a folder of IDX files but those of the posterior; needed")
	f.IntVar(&s.top, "top", 20, "list the first `K` rows")
	f.IntVar(&s.batch, "batch", 0, "choose a batch of `B` rows; 0 for none")
	f.StringVar(&s.csv, "csv", "", "write the scores of all rows as a table to `FILE`")
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior")
}

func (s *acquireVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, bare)
	if err != nil {
		return err
	}
	return s.acquire(ctx, c, post)
}

// acquire ranks the rows of the pool by a posterior.
func (s *acquireVerb) acquire(ctx context.Context, c *console.Console, p *funcgp.Posterior) error {
	pool, err := p.Pool(ctx, s.pool)
	if err != nil {
		return err
	}
	if s.batch > pool.Len() {
		return fmt.Errorf("--batch %d: --pool %s has %d rows; give at most that many", s.batch, s.pool, pool.Len())
	}
	found, err := audit.Acquire(ctx, p.Latent(), p.Likelihood(), pool.Source(ctx), s.batch, linearize.Limits{Memory: s.common.Fit.Memory, Progress: c.Show})
	c.Clear()
	if err != nil {
		return err
	}
	c.Warn(found.Warnings...)
	a := &result.Acquisition{Schema: "funcgp/acquire/1", Meanings: map[string]string{"information": result.InformationMeaning, "gain": result.GainMeaning}, Pool: len(found.Pool), Ranking: []result.Acquired{}, Batch: []result.Chosen{}}
	row := func(t int) result.Acquired {
		x := &found.Pool[t]
		class, name := p.ClassOf(x.Mean)
		return result.Acquired{Index: result.Index(pool.Index(t)), ID: pool.ID(t), Information: result.Float(x.Information), Gain: result.Float(x.Gain), Class: class, ClassName: name, Mean: result.Floats(x.Mean)}
	}
	for _, t := range found.Ranking[:min(s.top, len(found.Ranking))] {
		a.Ranking = append(a.Ranking, row(t))
	}
	for _, b := range found.Batch {
		x := row(b.Index)
		a.Batch = append(a.Batch, result.Chosen{Index: x.Index, ID: x.ID, Class: x.Class, ClassName: x.ClassName, Gain: result.Float(b.Gain), Total: result.Float(b.Total)})
	}
	if err := c.EndPart(ctx, "predict"); err != nil {
		return err
	}
	if err := tabulate(c, s.csv, report.AcquireColumns(a.Batch), func(add func(*result.Acquired) error) error {
		for _, t := range found.Ranking {
			x := row(t)
			if err := add(&x); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	a.Fit = p.Report(ctx)
	return show(c, "", report.AcquirePage(a), nil, &a.Fit, &a.Timings, a)
}
