// Command gpstudies measures funcgp against retraining, against published figures and against
// simple baselines, and tries to break it. Each study is resumable and writes its figures to a directory:
//
//	go run ./gpstudies            # lists the studies
//	go run ./gpstudies NAME -help # the flags of one
//	go run ./gpstudies NAME -cache DIR -out DIR
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/funcgp/funcgp/studies/attribution"
	"github.com/funcgp/funcgp/studies/bench"
	"github.com/funcgp/funcgp/studies/calibration"
	"github.com/funcgp/funcgp/studies/campaign"
	"github.com/funcgp/funcgp/studies/dattri"
	"github.com/funcgp/funcgp/studies/influence"
	"github.com/funcgp/funcgp/studies/lae"
	"github.com/funcgp/funcgp/studies/limits"
	"github.com/funcgp/funcgp/studies/load"
	"github.com/funcgp/funcgp/studies/mixed"
	"github.com/funcgp/funcgp/studies/nodetests"
	"github.com/funcgp/funcgp/studies/novelty"
	"github.com/funcgp/funcgp/studies/prediction"
	"github.com/funcgp/funcgp/studies/protocols"
	"github.com/funcgp/funcgp/studies/reproduce"
	"github.com/funcgp/funcgp/studies/suspects"
	"github.com/funcgp/funcgp/studies/zoo"
)

// A study is one subcommand: its name, its line of help, and what it runs.
type study struct {
	name, short string
	run         func(ctx context.Context, out io.Writer, args []string) error
}

// tables are those of the sources.
var tables = reproduce.Command{Verb: "reproduce", Studies: func() []*reproduce.Study { return append(reproduce.Studies(), lae.Study, lae.Hessians) }}

// studies are all of them, in the order in which they are listed.
var studies = []study{
	{"attribution", "which precision's terms tell what networks trained on halves of the rows become", attribution.Run},
	{"influence", "which score of training rows tells what networks trained on halves of them become", influence.Run},
	{"prediction", "what the answer at the match predicts, against the network, other precisions, temperatures and ensembles", prediction.Run},
	{"defaults", "what the default predicts with networks that are given, against themselves and a held-out temperature", prediction.RunGiven},
	{"novelty", "AUROC of novelty scores beside baselines, on tables and pictures", novelty.Run},
	{"reproduce", "tables and figures of the sources", tables.Run},
	{"suspects", "which score of training rows finds wrong labels", suspects.Run},
	{"evaluate", "attributions judged against networks trained again without a part of the rows", protocols.Command().Run},
	{"bench", "sparse and kept posteriors of all of MNIST", bench.Run},
	{"limits", "what whole jobs need at least of this machine, what they take, and PyTorch beside them", limits.Run},
	{"mixed", "whether a float32 factor, refined in float64, could stand in for that of a posterior", mixed.Run},
	{"calibration", "calibration without held-out rows, against temperatures and ensembles", calibration.Run},
	{"zoo", "networks of many kinds as PyTorch exports them", zoo.Run},
	{"nodetests", "the models of ONNX's own tests: outputs, Jacobians, and what is refused", nodetests.Run},
	{"load", "how fast gpexplain serve answers many clients", load.Run},
	{"dattri", "dattri's benchmark: a logistic regression, wrong labels, and TRAK of several networks", dattri.Run},
	{"campaign", "attempts to break the library and the command: fuzzing, damaged files, kills, hostile data", campaign.Run},
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := run(ctx, os.Stdout, os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gpstudies:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	if len(args) == 0 {
		for _, s := range studies {
			fmt.Fprintf(out, "%-16s %s\n", s.name, s.short)
		}
		return nil
	}
	for _, s := range studies {
		if s.name == args[0] {
			return s.run(ctx, out, args[1:])
		}
	}
	return fmt.Errorf("there is no study %q; without arguments gpstudies lists them", args[0])
}
