package sparse

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/linearize"
)

// A Report says how far a sparse posterior is from the exact one.
type Report struct {
	Examples   int // N in the sums
	Inducing   int // M, the number of inducing examples or pairs
	Rows, Rank int // rows of K_ZZ, and its rank to working precision

	// TraceError is tr(K − Q)/tr K over the training examples in the sums: 0
	// is exact, 1 is no information. It is NaN for a subset of data, which does
	// not read the other examples.
	TraceError float64
	// ResidualMean and ResidualMax are the mean and the maximum of
	// (k_** − q_**)/k_** over the outputs of the test examples. This is the part
	// of the prior variance that the inducing examples do not explain, and that
	// the posterior keeps.
	ResidualMean, ResidualMax float64

	// Sample compares the approximate with the exact posterior, both given a
	// sample of the training data, over all outputs of the test examples. It is
	// nil without a sample, and for a subset of data.
	Sample *Comparison
}

// A Comparison is the effect of an approximation on predictions.
type Comparison struct {
	Examples int // training examples that both posteriors have
	Tests    int // outputs compared
	// ShiftRMS and ShiftMax are the root mean square and the maximum of the
	// differences of the means, in exact posterior standard deviations.
	ShiftRMS, ShiftMax float64
	// RatioMin, RatioMedian and RatioMax are taken over the ratios of approximate
	// to exact variance. Where the ratio is below 1, the approximation is too
	// certain.
	RatioMin, RatioMedian, RatioMax float64
}

// Report measures the error of the approximation on the test examples x. With a
// sample of that many training examples, which it draws without replacement, it
// computes the exact and the sparse posterior given the sample alone,
// with the sites and inducing examples of p and the mean m + K_*n α. The exact one
// takes 8·(sample·C)² bytes, and Report fails with the error of gp.Fit where that is
// more than Options.Memory. A sample of 0 is none, and of N or more all examples.
func (p *Posterior) Report(ctx context.Context, x *linearize.Batch, sample int, seed uint64) (*Report, error) {
	if sample < 0 {
		panic("sparse: negative sample")
	}
	r := &Report{Examples: p.sums.n, Inducing: p.b.z.Len(), Rows: p.b.rows(), Rank: p.Rank(), TraceError: p.TraceError()}
	var prior, rest mat.Dense
	if err := p.SplitTo(ctx, nil, nil, &rest, x); err != nil {
		return nil, err
	}
	p.b.k.DiagTo(&prior, x)
	c := p.b.c
	for i := range x.Len() * c {
		if k := prior.At(i, i%c); k != 0 {
			// (k_** − q_**)/k_**, where it is more than rounding
			part := math.Max(0, rest.At(i, i%c)/k)
			r.ResidualMean += part / float64(x.Len()*c)
			r.ResidualMax = math.Max(r.ResidualMax, part)
		}
	}
	if sample == 0 || p.subset != nil {
		return r, nil
	}
	var err error
	r.Sample, err = p.sample(ctx, x, sample, seed)
	return r, err
}

// sample compares both posteriors given a sample of the training examples.
func (p *Posterior) sample(ctx context.Context, x *linearize.Batch, size int, seed uint64) (*Comparison, error) {
	total := p.Data().Len()
	rows := rand.New(rand.NewPCG(seed, sampleStream)).Perm(total)[:min(size, total)]
	slices.Sort(rows)
	train, err := linearize.Gather(ctx, p.Data(), rows)
	if err != nil {
		return nil, err
	}
	s := p.Sites().Rows(rows)
	exact, err := gp.Fit(ctx, p.b.k, train, s, &gp.Options{Mean: gp.LinearGaussian, Limits: linearize.Limits{Memory: p.o.Memory}})
	if err != nil {
		return nil, err
	}
	b := p.Builder()
	b.o.Mean, b.o.Progress = gp.LinearGaussian, nil
	if err := b.Add(ctx, train, s); err != nil {
		return nil, err
	}
	approximate, err := b.Posterior(ctx)
	if err != nil {
		return nil, err
	}
	c, err := Compare(ctx, exact, approximate, x)
	if c != nil {
		c.Examples = len(rows)
	}
	return c, err
}

// Compare compares the predictions of an approximate posterior with those of
// the exact one at the examples of x. It leaves out outputs whose exact variance is
// zero.
func Compare(ctx context.Context, exact, approximate gp.Latent, x *linearize.Batch) (*Comparison, error) {
	var mean, cov, mean2, cov2 mat.Dense
	if err := exact.PredictTo(ctx, &mean, &cov, x); err != nil {
		return nil, err
	}
	if err := approximate.PredictTo(ctx, &mean2, &cov2, x); err != nil {
		return nil, err
	}
	c := x.Outputs()
	out := &Comparison{}
	var ratios []float64
	for i := range x.Len() * c {
		v := cov.At(i, i%c)
		if v == 0 {
			continue
		}
		shift := math.Abs(mean2.At(i/c, i%c)-mean.At(i/c, i%c)) / math.Sqrt(v)
		out.ShiftRMS += shift * shift
		out.ShiftMax = math.Max(out.ShiftMax, shift)
		ratios = append(ratios, cov2.At(i, i%c)/v)
	}
	if out.Tests = len(ratios); out.Tests == 0 {
		return out, nil
	}
	out.ShiftRMS = math.Sqrt(out.ShiftRMS / float64(out.Tests))
	slices.Sort(ratios)
	out.RatioMin, out.RatioMedian, out.RatioMax = ratios[0], ratios[len(ratios)/2], ratios[len(ratios)-1]
	return out, nil
}
