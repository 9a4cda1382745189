package evaluate

import (
	"context"
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain/counterfactual"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/par"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// Kernel attributes by the posterior of the linearized network, whose mode is found
// again: the terms of a training row in the sum of the target's mean (E14, E12), and what
// the target loses when the row is left out (E15).
type Kernel struct {
	Precision float64 // δ of the prior N(0, I/δ)
	// Strength is the threshold τ of the rows that the covariance keeps (E16); 0 keeps all
	// with λ > 0. All training rows are in the sums.
	Strength float64
	// FromInitial makes Problem.Initial the prior mean μ₀ in place of 0: without weight
	// decay, training stays near where it began.
	FromInitial bool
	// AtTheta takes the sites at θ* and one step from there in place of the mode.
	AtTheta bool
}

var _ Method = Kernel{}

// Attribute implements Method with the attributions "contributions", "raw" and "removal",
// whose names end in " at θ*" with AtTheta.
// It is an error where a training row alone nearly fixes the function at its own input, so
// that no removal can be told; a larger Precision helps.
func (m Kernel) Attribute(ctx context.Context, p *Problem) ([]Attribution, error) {
	f, err := m.Fit(ctx, p)
	if err != nil {
		return nil, err
	}
	return f.Attribute(ctx)
}

// A KernelFit is the posterior of a Kernel.
type KernelFit struct {
	p      *Problem
	train  *linearize.Batch
	kernel *ntk.NTK
	post   *kept.Posterior
	thin   *gp.Thinned // its kept rows, for examples of other numbers of outputs

	atTheta bool
}

// Fit conditions the posterior on the training rows. Its errors are those of kept.Refit.
func (m Kernel) Fit(ctx context.Context, p *Problem) (*KernelFit, error) {
	train, err := p.train(ctx)
	if err != nil {
		return nil, err
	}
	var mean []float64
	if m.FromInitial {
		if mean = p.Initial; mean == nil {
			return nil, errors.New("evaluate: a prior around the initial parameters needs them; set Problem.Initial")
		}
	}
	prior, err := ntk.NewIsotropic(m.Precision, mean)
	if err != nil {
		return nil, err
	}
	theta := p.Network.Theta()
	f := &KernelFit{atTheta: m.AtTheta, p: p, train: train, kernel: ntk.New(prior, theta, &ntk.Options{Workers: p.Workers})}
	o := &kept.Options{Strength: m.Strength, Workers: p.Workers, MaxMemory: p.MaxMemory}
	if m.AtTheta {
		var sites *gp.Sites
		if sites, err = gp.SitesFrom(ctx, train, p.Y, p.Likelihood); err != nil {
			return nil, err
		}
		f.post, err = kept.Fit(ctx, train, sites, prior, theta, o)
	} else {
		f.post, err = kept.Refit(ctx, train, p.Y, p.Likelihood, prior, theta, o)
	}
	if err != nil {
		return nil, err
	}
	f.thin, err = gp.FitKept(ctx, f.kernel, train, f.post.Sites(), f.post.Kept(), &gp.Options{Workers: p.Workers, MaxMemory: p.MaxMemory})
	return f, err
}

// tile is the number of training rows whose covariances are held at a time.
const tile = 512

// Evidence returns the log evidence (E9) of a posterior at the mode. Rows that the
// covariance does not keep make it an upper bound. It panics with Kernel.AtTheta.
func (f *KernelFit) Evidence() float64 { return f.post.EvidenceRefit().Value }

// LeaveOneOut returns the mean of −log p(y_i | the other examples) over the training rows,
// in nats, from the moments in closed form (E17).
func (f *KernelFit) LeaveOneOut(ctx context.Context) (float64, error) {
	n, c := f.train.Len(), f.train.Outputs()
	mean, cov := mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	for k := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(k, n, tile)
		if err := f.post.LeaveOneOutTo(ctx, dense.Slice(mean, lo, hi), dense.Slice(cov, lo*c, hi*c), between(lo, hi), f.train.Slice(lo, hi)); err != nil {
			return 0, err
		}
	}
	score, err := score.ScoreOf(nil, f.p.Likelihood, f.p.Y, mean, cov)
	if err != nil {
		return 0, err
	}
	if score.LeftOut > 0 {
		return 0, fmt.Errorf("evaluate: %d training rows alone nearly fix the function at their own inputs, so that they cannot be left out; raise the precision", score.LeftOut)
	}
	return score.NLL, nil
}

// Kept returns the number of rows that the covariance keeps (E16).
func (f *KernelFit) Kept() int { return f.post.Kept().Len() }

// Attribute returns the attributions of the Kernel.
func (f *KernelFit) Attribute(ctx context.Context) ([]Attribution, error) {
	x, err := f.p.targets(ctx, f.p.Network)
	if err != nil {
		return nil, err
	}
	step, err := f.removals(ctx)
	if err != nil {
		return nil, err
	}
	n, c := f.train.Len(), f.train.Outputs()
	var half mat.Dense
	if err := f.thin.HalfTo(ctx, &half, x); err != nil {
		return nil, err
	}
	value, raw, removal := mat.NewDense(x.Len(), n, nil), mat.NewDense(x.Len(), n, nil), mat.NewDense(x.Len(), n, nil)
	for k := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(k, n, tile)
		// Three sums of the outputs of each example: b_iᵀf, q_iᵀf and α_iᵀf.
		w := mat.NewDense(3*(hi-lo), c, nil)
		for i := range hi - lo {
			from, to := (lo+i)*c, (lo+i+1)*c
			w.SetRow(3*i, f.post.PseudoTargets()[from:to])
			w.SetRow(3*i+1, step[from:to])
			w.SetRow(3*i+2, f.post.Alpha()[from:to])
		}
		b, err := linearize.GatherCombined(ctx, f.train, between(lo, hi), w)
		if err != nil {
			return nil, err
		}
		var prior, own mat.Dense
		if err := f.kernel.BlockContextTo(ctx, sized(&prior, x.Len(), 3*(hi-lo)), x, b); err != nil {
			return nil, err
		}
		if err := f.thin.HalfTo(ctx, &own, b); err != nil {
			return nil, err
		}
		post := mat.DenseCopyOf(&prior)
		// C(x*,x_i) = κ(x*,x_i) − H(x*)H(x_i)ᵀ (E14)
		dense.Gemm(blas.NoTrans, blas.Trans, -1, half.RawMatrix(), own.RawMatrix(), 1, post.RawMatrix())
		for t := range x.Len() {
			for i := range hi - lo {
				// v = C b (E14), κ α (E12), and f with the example minus f without it, C q (E15)
				value.Set(t, lo+i, post.At(t, 3*i))
				raw.Set(t, lo+i, prior.At(t, 3*i+2))
				removal.Set(t, lo+i, post.At(t, 3*i+1))
			}
		}
	}
	where := ""
	if f.atTheta {
		where = " at θ*"
	}
	return []Attribution{{"contributions" + where, value}, {"raw" + where, raw}, {"removal" + where, removal}}, nil
}

// removals returns q_i = (I − Λ_ih_i)⁻¹r_i of all training rows, N·C (E15).
func (f *KernelFit) removals(ctx context.Context) ([]float64, error) {
	n, c := f.train.Len(), f.train.Outputs()
	out := make([]float64, 0, n*c)
	for k := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(k, n, tile)
		var h, q mat.Dense
		if err := f.post.InfluenceTo(ctx, &h, &q, between(lo, hi), f.train.Slice(lo, hi)); err != nil {
			return nil, err
		}
		out = append(out, dense.Flat(&q)...)
	}
	for i, v := range out {
		if math.IsNaN(v) {
			return nil, fmt.Errorf("evaluate: training row %d alone nearly fixes the function at its own input, so that its removal cannot be told; raise the precision", i/c)
		}
	}
	return out, nil
}

// between returns lo to hi−1.
func between(lo, hi int) []int {
	list := make([]int, hi-lo)
	for i := range list {
		list[i] = lo + i
	}
	return list
}

// LeaveOut returns what the target of each test row loses when one of the training rows at
// these positions is left out, T×len(rows): the mode of the linearized model of all rows
// less that without the row, times the target's gradient at θ*. Where the removal of
// Attribute is one Newton step, this goes on to the mode. With Kernel.AtTheta it is an
// error.
func (f *KernelFit) LeaveOut(ctx context.Context, rows []int) (*mat.Dense, error) {
	model, err := counterfactual.New(ctx, f.post, f.kernel, f.p.Y, f.p.Likelihood, &counterfactual.Options{MaxMemory: f.p.MaxMemory})
	if err != nil {
		return nil, err
	}
	x, err := f.p.Network.Linearize(ctx, f.p.TestX)
	if err != nil {
		return nil, err
	}
	at, err := model.At(ctx, x)
	if err != nil {
		return nil, err
	}
	t, c := x.F.Dims()
	w := mat.NewDense(t, c, nil)
	for k := range t {
		f.p.target().GradientTo(w.RawRowView(k), f.p.TestY.RawRowView(k), x.F.RawRowView(k))
	}
	lost, mean := mat.NewDense(t, len(rows), nil), mat.NewDense(t, c, nil)
	for j, i := range rows {
		without, err := model.Fit(ctx, counterfactual.Without(i))
		if err != nil {
			return nil, err
		}
		if err := at.MeanTo(ctx, mean, without); err != nil {
			return nil, err
		}
		mean.Sub(at.Mean(), mean)
		for k := range t {
			lost.Set(k, j, dense.Dot(w.RawRowView(k), mean.RawRowView(k)))
		}
	}
	return lost, nil
}
