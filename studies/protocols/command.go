package protocols

import (
	"flag"
	"fmt"
	"path/filepath"

	"github.com/funcgp/funcgp/studies/reproduce"
)

// Command runs the protocols from a command line. Besides its page a protocol keeps in the folder
// retrained the outputs of each network that was trained again.
func Command() reproduce.Command {
	o := &Options{Models: 1, Runs: 2}
	return reproduce.Command{Verb: "evaluate", Studies: func() []*reproduce.Study { return All(o) },
		Flags: func(f *flag.FlagSet) {
			f.IntVar(&o.Models, "models", o.Models, "attribute `K` networks trained on all rows, and their mean")
			f.IntVar(&o.Runs, "runs", o.Runs, "train `K` networks on each half; the second gives the ceiling")
		},
		Check: func(common *reproduce.Options) error {
			if o.Models < 1 || o.Runs < 1 {
				return fmt.Errorf("-models %d and -runs %d must be at least 1", o.Models, o.Runs)
			}
			if common.Out != "" {
				o.Dir = filepath.Join(common.Out, "retrained")
			}
			return nil
		}}
}
