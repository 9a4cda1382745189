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

// mostChanged bounds the rows of --without and --flip.
const mostChanged = 1 << 20

// addChange defines the flags that ask for predictions from other training data too.
func (s *explainVerb) addChange(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&s.without, "without", "", "also say what the prediction would be without the training rows of this `LIST`, such as 12 or 12,99,200-210")
	f.StringVar(&s.flip, "flip", "", "also say what the prediction would be if training rows had other labels, such as `ROW=LABEL` or 12=4,99=9; of several labels a row, without the label or with it")
	f.BoolVar(&s.o.SmallestFlip, "smallest-flip", false, "also look for a small set of training rows without which the class is another; a smaller one may exist")
	f.IntVar(&s.o.FlipMost, "flip-most", 0, "of --smallest-flip: leave out at most `N` rows (default a tenth of the training rows)")
	f.IntVar(&s.o.FlipTries, "flip-tries", 0, "of --smallest-flip: try at most `N` sets (default 100)")
}

// checkChange reads --without and --flip.
func (s *explainVerb) checkChange() error {
	var rows []int
	switch {
	case s.without != "":
		var ok bool
		if s.o.Without, ok = job.ParseRows(s.without, mostChanged); !ok {
			return job.Usagef("--without %q must list training rows such as 12 or 12,99,200-210", s.without)
		}
		return onlyOnce("--without", s.o.Without)
	case s.flip != "":
		for part := range strings.SplitSeq(s.flip, ",") {
			row, label, ok := strings.Cut(part, "=")
			i, err := strconv.Atoi(strings.TrimSpace(row))
			if label = strings.TrimSpace(label); !ok || err != nil || i < 0 || label == "" {
				return job.Usagef("--flip %q must give training rows other labels, such as 12=4 or 12=4,99=9", s.flip)
			}
			rows, s.o.Flip = append(rows, i), append(s.o.Flip, funcgp.Relabelled{Row: i, Label: label})
		}
	}
	return onlyOnce("--flip", rows)
}

// onlyOnce returns an error for a row that is named twice, by a flag or, where flag is "", on the command line.
func onlyOnce(flag string, rows []int) error {
	sorted := slices.Sorted(slices.Values(rows))
	for k := 1; k < len(sorted); k++ {
		if sorted[k] == sorted[k-1] {
			return job.Usagef("%s names training row %d twice", cmp.Or(flag, "the command line"), sorted[k])
		}
	}
	return nil
}
