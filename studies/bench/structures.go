package bench

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm/predictive"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// measureStructures prints a row of a table for each structure: the seconds to fit all
// training rows and to predict both sets of test rows by the multi-class probit, and
// what the predictions are worth.
func measureStructures(ctx context.Context, o *options) error {
	p, err := openProblem(ctx, o)
	if err != nil {
		return err
	}
	prior, err := ntk.NewIsotropic(p.delta, nil)
	if err != nil {
		return err
	}
	fmt.Printf("%d training rows, precision %v\n\n", p.train.n, p.delta)
	fmt.Println("| structure | fit, s | CPU s | predict, s | CPU s | NLL | ECE | accuracy | AUROC Kuzushiji | log det | log evidence |")
	fmt.Println("|---|---|---|---|---|---|---|---|---|---|---|")
	if err := networkAlone(ctx, p); err != nil {
		return err
	}
	for name := range strings.SplitSeq(o.structures, ",") {
		structure, err := weightspace.ParseStructure(name)
		if err != nil {
			return err
		}
		from := now()
		train := p.train.source(0, p.train.n)
		sites, err := gp.SitesFrom(ctx, train, gp.NewTargets(p.train.targets(), lik))
		if err != nil {
			return err
		}
		w, err := weightspace.FitStructure(ctx, structure, train, sites, prior, p.net.Theta(), &weightspace.Options{Limits: linearize.Limits{Progress: progress()}})
		if err != nil {
			return err
		}
		fit := from.since()
		from = now()
		j := judgedBy(predictive.Probit{})[0]
		for _, set := range []rows{p.test, p.kmnist} {
			if err := predictWeights(ctx, w, j, set); err != nil {
				return err
			}
		}
		predict := from.since()
		fmt.Printf("| %s | %.1f | %.1f | %.1f | %.1f | %s | %.2f | %.2f |\n", name, fit.wall, fit.cpu, predict.wall, predict.cpu, j.scores(p),
			w.LogDet(), w.EvidenceAtTheta().Value)
	}
	return nil
}

// networkAlone prints the row of the network without a posterior.
func networkAlone(ctx context.Context, p *problem) error {
	j := judgedBy(predictive.MAP{})[0]
	for _, set := range []rows{p.test, p.kmnist} {
		f, err := linearize.Outputs(ctx, set.source(0, set.n))
		if err != nil {
			return err
		}
		if err := j.predict(f, nil, set, 0, set.n); err != nil {
			return err
		}
	}
	fmt.Printf("| network alone | | | | | %s | | |\n", j.scores(p))
	return nil
}

// scores are the columns that judge predictions.
func (j *judged) scores(p *problem) string {
	return fmt.Sprintf("%.4f | %.4f | %.4f | %.4f", score.NLL(j.logp), score.ECE(j.prob, p.test.labels), score.Accuracy(j.prob, p.test.labels),
		score.AUROC(j.ent[p.test.name], j.ent[p.kmnist.name]))
}

// predictWeights predicts all rows of a set, a tile at a time.
func predictWeights(ctx context.Context, w weightspace.Weights, j *judged, set rows) error {
	show := progress()
	return set.source(0, set.n).Batches(ctx, func(first int, b *linearize.Batch) error {
		var mean, cov mat.Dense
		if err := w.PredictTo(ctx, &mean, &cov, b); err != nil {
			return err
		}
		show(set.name, first+b.Len(), set.n)
		return j.predict(&mean, &cov, set, first, first+b.Len())
	})
}

// seconds are those on the wall and those of all processors.
type seconds struct{ wall, cpu float64 }

// A moment is a point in time on both clocks.
type moment struct {
	at  time.Time
	cpu float64
}

func now() moment { return moment{time.Now(), cpuSeconds()} }

func (m moment) since() seconds {
	return seconds{time.Since(m.at).Seconds(), cpuSeconds() - m.cpu}
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		fmt.Fprintln(os.Stderr, "mnistbench: the processors' time is not known:", err)
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}
