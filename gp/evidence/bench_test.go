package evidence_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/funcgp/funcgp/gp/evidence"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/ntk"
)

// A benchCase is a reference, of which the first n training examples are taken; 0 for
// all.
type benchCase struct {
	name string
	n    int
}

var benchCases = []benchCase{{"snelson", 0}, {"categorical", 0}, {"thesis-cnn", 1500}}

func (c benchCase) problem(b *testing.B) *evidence.Problem { return openProblem(b, c) }

func openProblem(b testing.TB, c benchCase) *evidence.Problem {
	b.Helper()
	r := testkit.OpenReference(b, c.name)
	p := &evidence.Problem{X: r.Train, Y: r.Targets(), Theta: r.Net.Theta(), Prior: r.Prior, Groups: ntk.ByLayer(ntk.Spans(r.Train), 1)}
	if c.n > 0 {
		p.X = p.X.Slice(0, c.n)
		p.Y = p.Y.Slice(0, c.n)
	}
	return p
}

// One evaluation with its derivatives, the kernels at hand.
func BenchmarkAt(b *testing.B) {
	for _, c := range benchCases {
		for _, form := range forms {
			b.Run(c.name+"/"+form.String(), func(b *testing.B) {
				m := testref.Must(evidence.New(b.Context(), c.problem(b), &evidence.Options{PerGroup: true}))(b)
				x := make([]float64, len(m.Groups()))
				for i := 0; b.Loop(); i++ {
					x[0] = 0.1 * float64(i%5)
					require.NoError(b, testref.Err(m.At(b.Context(), form, x, 0)))
				}
			})
		}
	}
}

// The best variance of every layer by the refit's evidence, from one start.
func BenchmarkMaximize(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			p := c.problem(b)
			for b.Loop() {
				r, err := evidence.Maximize(b.Context(), p, evidence.Refit, &evidence.Options{PerGroup: true, Starts: 1})
				require.NoError(b, err)
				b.ReportMetric(float64(len(r.Trials)), "evaluations")
				b.Logf("%v: %v, zero %v, settled %v, %v", r.LogFactor, r.Evidence.Value, r.Zero, r.Settled, r.Warnings)
			}
		})
	}
}
