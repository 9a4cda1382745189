package audit

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// noiseLevels are the noise variances that OfLabels tries, relative to the mean prior
// variance of an output.
var noiseLevels = []float64{0.03, 0.1, 0.3, 1}

// A Noise is a noise variance with the error of leave-one-out under it.
type Noise struct {
	Relative float64 // to the mean prior variance of an output
	Error    float64 // mean over examples of the squared distance from leave-one-out to the target
}

// A LabelAudit is an Audit by least squares.
type LabelAudit struct {
	Audit
	Noise       Noise   // the chosen one: the smallest error of leave-one-out
	Tried       []Noise // in the order in which they were tried
	Temperature float64 // that probabilities are softmax(mean/Temperature) of
}

// OfLabels audits labels, classes from 0, by a regression of their indicators with the
// kernel of a network: outputs less their prior mean are N(0, K), and the target is 1 for
// the label's class and 0 for the others, less 1/C; with one output it is ±½. Prior mean
// and trained outputs are not used, so that a network which repeats every label has no
// part in a prediction but by its features, and leave-one-out is exact. The noise variance
// is that of noiseLevels under which leave-one-out predicts the recorded labels best.
//
// Compared with Of after a refit, this finds wrong labels better where the network was
// trained until it repeated them (testdata/studies). The Link and Calibration of the
// options are not used: probabilities are those of a softmax of the predictions whose
// temperature makes the recorded labels likeliest. Supports are in units of the target.
//
// It takes the memory and the time of gp.Fit, and for each noise variance a factorization
// and gp.Exact.LeaveOneOutTo.
func OfLabels(ctx context.Context, k ntk.Kernel, x *linearize.Batch, labels []int, o *Options) (*LabelAudit, error) {
	n, c := x.Len(), x.Outputs()
	if len(labels) != n {
		panic("audit: labels and training examples differ in number")
	}
	classes := max(2, c)
	y, target := mat.NewDense(max(1, n), 1, nil), mat.NewDense(max(1, n), c, nil)
	for i, label := range labels {
		if label < 0 || label >= classes {
			return nil, fmt.Errorf("audit: the label of training example %d is %d, but the classes are 0 to %d", i, label, classes-1)
		}
		y.Set(i, 0, float64(label))
		indicate(target.RawRowView(i), label)
	}
	variance := meanVariance(k, x)
	if n == 0 || !(variance > 0) || math.IsInf(variance, 0) {
		return nil, &glm.RowsError{Rows: n}
	}
	l := &labelAuditor{kernel: zeroMean{k}, x: x, target: target}
	if o != nil {
		l.o = *o
	}
	out := &LabelAudit{}
	for _, level := range noiseLevels {
		tried, err := l.try(ctx, level, variance)
		if err != nil {
			return nil, err
		}
		out.Tried = append(out.Tried, tried)
	}
	out.Noise = slices.MinFunc(out.Tried, func(a, b Noise) int {
		if a.Error < b.Error {
			return -1
		}
		return 1
	})
	// The last one is still there.
	if out.Noise != out.Tried[len(out.Tried)-1] {
		if _, err := l.try(ctx, out.Noise.Relative, variance); err != nil {
			return nil, err
		}
	}
	var lik glm.Likelihood = glm.Categorical{}
	if c == 1 {
		lik = glm.Bernoulli{}
	}
	a, err := newAuditor(l.post, lik, y, o)
	if err != nil {
		return nil, err
	}
	if len(a.rows) == 0 {
		return nil, &glm.RowsError{}
	}
	a.mean, a.cov = takeBlocks(l.mean, a.rows, 1), takeBlocks(l.cov, a.rows, c)
	prob := a.probabilities(labels, &out.Temperature)
	a.classify(prob, pick(labels, a.rows))
	for k := range a.audit.Examples {
		a.audit.Examples[k].LogDensity = math.Log(prob.At(k, a.audit.Examples[k].Label))
	}
	err = a.finish(ctx)
	out.Audit = *a.audit
	return out, err
}

// indicate writes the target of a label.
func indicate(target []float64, label int) {
	if len(target) == 1 {
		target[0] = float64(label) - 0.5
		return
	}
	for c := range target {
		target[c] = -1 / float64(len(target))
	}
	target[label]++
}

// meanVariance returns the mean diagonal element of K.
func meanVariance(k ntk.Kernel, x *linearize.Batch) float64 {
	var diag mat.Dense
	k.DiagTo(&diag, x)
	rows, c := diag.Dims()
	sum := 0.0
	for i := range rows {
		sum += diag.At(i, i%c) / float64(rows)
	}
	return sum
}

// zeroMean is a kernel with the prior mean 0.
type zeroMean struct{ ntk.Kernel }

// MeanTo implements ntk.Kernel.
func (zeroMean) MeanTo(dst []float64, _ *linearize.Batch) { clear(dst) }

// A labelAuditor tries noise variances.
type labelAuditor struct {
	kernel    ntk.Kernel
	x         *linearize.Batch
	target    *mat.Dense
	o         Options
	post      *gp.Exact
	mean, cov *mat.Dense // of leave-one-out
}

// try fits the regression under a noise variance and leaves out every example.
func (l *labelAuditor) try(ctx context.Context, level, variance float64) (Noise, error) {
	n, c := l.target.Dims()
	lik, err := glm.NewGaussian(level * variance)
	if err != nil {
		return Noise{}, err
	}
	sites, err := gp.NewSites(l.target, mat.NewDense(n, c, nil), lik)
	if err != nil {
		return Noise{}, err
	}
	if l.post == nil {
		o := &gp.Options{Mean: gp.LinearGaussian, MaxMemory: l.o.MaxMemory, Workers: l.o.Workers, Progress: l.o.Progress}
		l.post, err = gp.Fit(ctx, l.kernel, l.x, sites, o)
	} else {
		l.post, err = l.post.Recondition(ctx, sites)
	}
	if err != nil {
		return Noise{}, err
	}
	l.mean, l.cov = mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	if err := l.post.LeaveOneOutTo(ctx, l.mean, l.cov, dense.Range(n), l.x); err != nil {
		return Noise{}, err
	}
	out := Noise{Relative: level}
	for i := range n {
		for j, f := range l.mean.RawRowView(i) {
			out.Error += (f - l.target.At(i, j)) * (f - l.target.At(i, j)) / float64(n)
		}
	}
	return out, nil
}

// takeBlocks returns blocks of so many rows.
func takeBlocks(m *mat.Dense, blocks []int, size int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(blocks)*size, c, nil)
	for k, i := range blocks {
		dense.Slice(to, k*size, (k+1)*size).Copy(dense.Slice(m, i*size, (i+1)*size))
	}
	return to
}

func pick(v, at []int) []int {
	out := make([]int, len(at))
	for k, i := range at {
		out[k] = v[i]
	}
	return out
}

// probabilities returns softmax(mean/T) of the predictions without each example, with the
// T under which the labels are likeliest.
func (a *auditor) probabilities(labels []int, temperature *float64) *mat.Dense {
	prob := mat.NewDense(len(a.rows), max(2, a.c), nil)
	logits := make([]float64, max(2, a.c))
	fill := func(t float64) (logp float64) {
		for k, i := range a.rows {
			copy(logits, a.mean.RawRowView(k))
			if a.c == 1 {
				logits[0], logits[1] = 0, 2*a.mean.At(k, 0)
			}
			for j := range logits {
				logits[j] /= t
			}
			p := prob.RawRowView(k)
			glm.Categorical{}.MeanTo(p, logits)
			logp += math.Log(p[labels[i]])
		}
		return logp
	}
	// The log likelihood is concave in 1/T, so it has one maximum over log T too.
	lo, hi := math.Log(1e-3), math.Log(1e3)
	const ratio = 0.61803398874989484820
	for range 60 {
		left, right := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
		if fill(math.Exp(left)) >= fill(math.Exp(right)) {
			hi = right
		} else {
			lo = left
		}
	}
	*temperature = math.Exp((lo + hi) / 2)
	fill(*temperature)
	return prob
}
