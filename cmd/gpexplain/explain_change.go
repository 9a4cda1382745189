package main

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/internal/job"
)

// changeFlags say with what other training data to predict as well.
type changeFlags struct {
	without, flip string
	smallest      bool
	most, tries   int // of --smallest-flip; 0 is the default

	rows   []int // of --without or --flip, as of the original file
	labels []string
}

// mostChanged bounds the rows of --without and --flip.
const mostChanged = 1 << 20

func (s *changeFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.without, "without", "", "also say what the prediction would be without the training rows of this `LIST`, such as 12 or 12,99,200-210")
	f.StringVar(&s.flip, "flip", "", "also say what the prediction would be if training rows had other labels, such as `ROW=LABEL` or 12=4,99=9; of several labels a row, without the label or with it")
	f.BoolVar(&s.smallest, "smallest-flip", false, "also look for a small set of training rows without which the class is another; a smaller one may exist")
	f.IntVar(&s.most, "flip-most", 0, "of --smallest-flip: leave out at most `N` rows (default a tenth of the training rows)")
	f.IntVar(&s.tries, "flip-tries", 0, "of --smallest-flip: try at most `N` sets (default 100)")
}

// flag is the flag that was given, "" for none.
func (s *changeFlags) flag() string {
	switch {
	case s.without != "":
		return "--without"
	case s.flip != "":
		return "--flip"
	case s.smallest:
		return "--smallest-flip"
	}
	return ""
}

func (s *changeFlags) check() error {
	switch {
	case s.without != "":
		var ok bool
		if s.rows, ok = job.ParseRows(s.without, mostChanged); !ok {
			return job.Usagef("--without %q must list training rows such as 12 or 12,99,200-210", s.without)
		}
	case s.flip != "":
		for part := range strings.SplitSeq(s.flip, ",") {
			row, label, ok := strings.Cut(part, "=")
			i, err := strconv.Atoi(strings.TrimSpace(row))
			if label = strings.TrimSpace(label); !ok || err != nil || i < 0 || label == "" {
				return job.Usagef("--flip %q must give training rows other labels, such as 12=4 or 12=4,99=9", s.flip)
			}
			s.rows, s.labels = append(s.rows, i), append(s.labels, label)
		}
	}
	return onlyOnce(s.flag(), s.rows)
}

// onlyOnce refuses a row that a flag, or without one the command line, names twice.
func onlyOnce(flag string, rows []int) error {
	sorted := slices.Sorted(slices.Values(rows))
	for k := 1; k < len(sorted); k++ {
		if sorted[k] == sorted[k-1] {
			return job.Usagef("%s names training row %d twice", cmp.Or(flag, "the command line"), sorted[k])
		}
	}
	return nil
}

// ask asks for the change.
func (s *changeFlags) ask(o *funcgp.ExplainOptions) {
	switch {
	case s.without != "":
		o.Without = s.rows
	case s.smallest:
		o.SmallestFlip = &funcgp.FlipOptions{Most: s.most, Tries: s.tries}
	}
	for k, label := range s.labels {
		o.Flip = append(o.Flip, funcgp.Relabelled{Row: s.rows[k], Label: label})
	}
}
