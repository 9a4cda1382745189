package weightspace

import (
	"context"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/logsum"
)

// Drawn is what the networks at S draws of the parameters say about T inputs together.
type Drawn struct {
	F, Cov *mat.Dense // mean, T×C, and covariance of each input's outputs f(x;θ), T·C×C
	// Mean is the average of g⁻¹(f), T×C. Aleatoric and Epistemic are the parts of the
	// predictive variance, E Var[y|f] and Var E[y|f], T×C; see predictive.Splitter.
	Mean, Aleatoric, Epistemic *mat.Dense
	// Entropy is H[E p(y|f)] in nats and Mutual H[E p(y|f)] − E H[p(y|f)], T numbers each,
	// for a glm.Logistic likelihood; nil for others.
	Entropy, Mutual []float64
	// CDF is P(y' ≤ y) at the one target y of a likelihood for which there is a
	// glm.DistributionOf, T numbers; nil for others and without targets.
	CDF []float64
	// LogDensity is the log of the average of p(y|f), T numbers; nil without targets.
	LogDensity []float64
}

// Draw runs the network once at each draw and returns all that Drawn holds. y is
// T×Targets(C), or nil where the targets are unknown.
func (b *BNN) Draw(ctx context.Context, lik glm.Likelihood, y, x *mat.Dense) (*Drawn, error) {
	var d *Drawn
	var m *drawMoments
	var first, shifted *mat.Dense
	var sums []logsum.Sum
	var below glm.CoupledQuantities
	var ok bool
	var certain []float64 // no covariance
	n := 0.0
	err := b.draw(ctx, x, func(f *mat.Dense) {
		t, c := f.Dims()
		if d == nil {
			certain = make([]float64, c*c)
			d = &Drawn{F: mat.NewDense(t, c, nil), Cov: mat.NewDense(t*c, c, nil)}
			m = newDrawMoments(t, c)
			first, shifted = mat.DenseCopyOf(f), mat.NewDense(t, c, nil)
			if _, ok := lik.(glm.Logistic); ok {
				d.Entropy, d.Mutual = make([]float64, t), make([]float64, t)
			}
			if y != nil {
				if r, k := y.Dims(); r != t || k != lik.Targets(c) {
					panic("weightspace: y is not T×Targets(C)")
				}
				sums = make([]logsum.Sum, t)
				for i := range sums {
					sums[i] = logsum.New()
				}
				if below, ok = glm.DistributionOf(lik); ok && lik.Targets(c) == 1 {
					d.CDF = make([]float64, t)
				}
			}
		}
		n++
		m.add(lik, f)
		// Sums of f less its first draw, which lose no digits.
		shifted.Sub(f, first)
		d.F.Add(d.F, shifted)
		for i := range t {
			g := shifted.RawRowView(i)
			for a, v := range g {
				floats.AddScaled(d.Cov.RawRowView(i*c+a), v, g)
			}
			if d.Mutual != nil {
				d.Mutual[i] += responseEntropy(lik, f.RawRowView(i))
			}
			if sums != nil {
				sums[i].Add(lik.LogProb(y.RawRowView(i), f.RawRowView(i)))
			}
			if d.CDF != nil {
				d.CDF[i] += below.CoupledCDF(0, y.At(i, 0), f.RawRowView(i), certain)
			}
		}
	})
	if err != nil || d == nil {
		return nil, err
	}
	d.finish(lik, m, first, n)
	floats.Scale(1/n, d.CDF)
	for i := range sums {
		d.LogDensity = append(d.LogDensity, sums[i].Value()-math.Log(n))
	}
	return d, nil
}

// finish turns the sums over n draws into moments.
func (d *Drawn) finish(lik glm.Likelihood, m *drawMoments, first *mat.Dense, n float64) {
	t, c := d.F.Dims()
	d.F.Scale(1/n, d.F)
	d.Cov.Scale(1/n, d.Cov)
	for i := range t {
		shift := d.F.RawRowView(i)
		for a, v := range shift {
			floats.AddScaled(d.Cov.RawRowView(i*c+a), -v, shift)
		}
		for a := range c {
			d.Cov.Set(i*c+a, a, math.Max(0, d.Cov.At(i*c+a, a)))
		}
	}
	d.F.Add(d.F, first)
	d.Mean, d.Aleatoric, d.Epistemic = mat.NewDense(t, c, m.mean), mat.NewDense(t, c, m.aleatoric), mat.NewDense(t, c, m.scatter)
	d.Epistemic.Scale(1/n, d.Epistemic)
	for i := range d.Entropy {
		d.Entropy[i] = entropyOf(lik, d.Mean.RawRowView(i))
		d.Mutual[i] = math.Max(0, d.Entropy[i]-d.Mutual[i]/n)
	}
}

// responseEntropy returns H[p(y|f)] of classes.
func responseEntropy(lik glm.Likelihood, f []float64) float64 {
	p := make([]float64, len(f))
	lik.MeanTo(p, f)
	return entropyOf(lik, p)
}

// entropyOf returns the entropy of classes with probabilities p, of outputs that are
// logits by themselves the sum over them.
func entropyOf(lik glm.Likelihood, p []float64) float64 {
	h := 0.0
	add := func(p float64) {
		if p > 0 {
			h -= p * math.Log(p)
		}
	}
	for _, v := range p {
		add(v)
		if !lik.(glm.Logistic).Softmax() {
			add(1 - v)
		}
	}
	return h
}

// JointTo writes the average of g⁻¹(f(x;θ)) over the draws, T×C, and the parts of the
// covariance of all outputs of y; see predictive.JointLink.
func (b *BNN) JointTo(ctx context.Context, mean, aleatoric, epistemic *mat.Dense, lik glm.Likelihood, x *mat.Dense) error {
	var m *drawMoments
	var all []float64 // S×T·C
	err := b.draw(ctx, x, func(f *mat.Dense) {
		t, c := f.Dims()
		if m == nil {
			m = newDrawMoments(t, c)
		}
		m.add(lik, f)
		at := len(all)
		all = append(all, make([]float64, t*c)...)
		for i := range t {
			lik.MeanTo(all[at+i*c:at+(i+1)*c], f.RawRowView(i))
		}
	})
	if err != nil || m == nil {
		return err
	}
	dense.CopyTo(mean, m.t, m.c, m.mean)
	dense.CopyTo(aleatoric, m.t, m.c, m.aleatoric)
	if dense.SizeTo(epistemic, m.t*m.c, m.t*m.c); epistemic != nil {
		draws := mat.NewDense(len(all)/(m.t*m.c), m.t*m.c, all)
		for s := range draws.RawMatrix().Rows {
			floats.Sub(draws.RawRowView(s), m.mean)
		}
		epistemic.Mul(draws.T(), draws)
		epistemic.Scale(1/m.n, epistemic)
	}
	return nil
}
