package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/report"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/sparse/parts"
)

type auditVerb struct {
	common flags.Common

	top       int
	html, csv string

	part   partFlags
	merged *parts.AuditPart // all parts, in place of leaving out rows; nil where they are to be left out
}

func auditCommand(con *console.Console) *cobra.Command {
	s := &auditVerb{}
	v := &verb{
		name:  "audit",
		short: "Rank training rows that are worth a look",
		long: `Audit predicts each training row without it, and lists the rows whose label the others
contradict, with the label that they suggest and those that say so most; rows that are the
same or nearly the same; rows near a boundary between classes; and rows that fix the function
at their own input. --csv writes the scores of all rows.

A network that was trained until it repeated every label has seen the wrong ones too. Labels
and the targets of regressions are therefore predicted by a regression of those of the other
rows on the Jacobian of the network with shuffled parameters, and all other scores are of
the posterior without the row. Counts, and more than 12,000 rows, are left to the posterior.

Where leaving out each of many rows takes long, a sample of them has the scores of the
posterior. --shard I/N audits all rows in parts, by as many processes, and gpexplain merge
prints the lists of all parts; --csv then has the rows of the part, all scores by the
posterior, and does not tell which are equal.`,
		example: `  gpexplain audit
  gpexplain audit --top 50 --html page.html --csv scores.csv
  gpexplain audit --tune-prior loo
  gpexplain fit --method nystrom --inducing 200 -o all.gp
  gpexplain audit --posterior all.gp --shard 0/2 -o part0.audit
  gpexplain audit --posterior all.gp --shard 1/2 -o part1.audit
  gpexplain merge part0.audit part1.audit`,
		flags: s.add, run: s.run, writes: []string{"html", "csv", "out"},
		check: func(*cobra.Command) error { return s.part.parse() },
		rules: append(s.part.rules("html", "json"),
			flags.AtLeast(1, "top"),
		),
	}
	return v.command(con, &s.common)
}

func (s *auditVerb) add(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&s.top, "top", 20, "list `K` training rows of each kind")
	f.StringVar(&s.html, "html", "", "write the lists as a page to `FILE`")
	f.StringVar(&s.csv, "csv", "", "write the scores of all training rows as a table to `FILE`")
	s.part.add(c, "score part `I/N` of the training rows, 0/N to N-1/N, for gpexplain merge")
	flags.Method(c, "at", "refit", "inference", "tune-prior", "posterior", "calibrate")
}

func (s *auditVerb) run(ctx context.Context, c *console.Console) error {
	post, err := s.common.Posterior(ctx, nil)
	if err != nil {
		return err
	}
	if s.part.text != "" {
		return s.writePart(ctx, c, post)
	}
	var a *funcgp.Audit
	if s.merged != nil {
		a, err = post.AuditOf(ctx, s.top, s.merged.Examples())
	} else {
		a, err = post.Audit(ctx, s.top)
	}
	if err != nil {
		return err
	}
	if err := s.writeCSV(c, a.Scores); err != nil {
		return err
	}
	from, err := originOf(ctx, c, post, s.html != "")
	if err != nil {
		return err
	}
	a.Record = &from.Record
	var unread error
	page := report.AuditPage(a)
	page.Picture, page.Origin = post.Pictures(ctx, &unread), from
	return show(c, s.html, page, &unread, &a.Fit, &a.Timings, a)
}

// writePart writes the scores of a part of the training rows.
func (s *auditVerb) writePart(ctx context.Context, c *console.Console, post *funcgp.Posterior) error {
	done, err := parts.NewAuditPart(ctx, post, s.part.part, s.top, s.common.Calibrate())
	if err != nil {
		return err
	}
	if err := s.writeCSV(c, done.Scores()); err != nil {
		return err
	}
	if err := done.Write(s.part.out); err != nil {
		return err
	}
	lo, _ := s.part.part.Rows(post.Info().Examples)
	_, err = fmt.Fprintf(c.Out, "wrote %s: part %v, %d training rows from the %s\n", s.part.out, s.part.part, len(done.Examples()), ordinal(lo))
	return err
}

// writeCSV writes the scores of rows to --csv.
func (s *auditVerb) writeCSV(c *console.Console, scores []result.AuditScores) error {
	return tabulate(c, s.csv, report.AuditColumns(), func(add func(*result.AuditScores) error) error {
		for i := range scores {
			if err := add(&scores[i]); err != nil {
				return err
			}
		}
		return nil
	})
}
