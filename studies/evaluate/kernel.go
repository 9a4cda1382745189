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

	atTheta   bool
	residuals []float64 // of the network, N·C
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
	f := &KernelFit{atTheta: m.AtTheta, p: p, train: train, kernel: ntk.New(prior, theta)}
	o := &kept.Options{Strength: m.Strength, Limits: linearize.Limits{Memory: p.MaxMemory}}
	atTheta, err := gp.SitesFrom(ctx, train, gp.NewTargets(p.Y, p.Likelihood))
	if err != nil {
		return nil, err
	}
	f.residuals = dense.Flat(atTheta.Residual)
	if m.AtTheta {
		f.post, err = kept.Fit(ctx, train, atTheta, prior, theta, o)
	} else {
		f.post, err = kept.Refit(ctx, train, gp.NewTargets(p.Y, p.Likelihood), prior, theta, o)
	}
	if err != nil {
		return nil, err
	}
	f.thin, err = gp.FitKept(ctx, f.kernel, train, f.post.Sites(), f.post.Kept(), &gp.Options{Limits: linearize.Limits{Memory: p.MaxMemory}})
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
	mean, cov, err := f.moments(ctx)
	if err != nil {
		return 0, err
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

// moments are those of each training row by the other ones, N×C and N·C×C (E17).
func (f *KernelFit) moments(ctx context.Context) (mean, cov *mat.Dense, err error) {
	n, c := f.train.Len(), f.train.Outputs()
	mean, cov = mat.NewDense(n, c, nil), mat.NewDense(n*c, c, nil)
	for k := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(k, n, tile)
		if err := f.post.LeaveOneOutTo(ctx, dense.Slice(mean, lo, hi), dense.Slice(cov, lo*c, hi*c), between(lo, hi), f.train.Slice(lo, hi)); err != nil {
			return nil, nil, err
		}
	}
	return mean, cov, nil
}

// Kept returns the number of rows that the covariance keeps (E16).
func (f *KernelFit) Kept() int { return f.post.Kept().Len() }

// Attribute returns the attributions of the Kernel.
func (f *KernelFit) Attribute(ctx context.Context) ([]Attribution, error) {
	step, _, err := f.steps(ctx)
	if err != nil {
		return nil, err
	}
	// v = C b (E14), f with the example minus f without it, C q (E15), and κ α (E12)
	post, prior, err := f.products(ctx, [][]float64{f.post.PseudoTargets(), step}, f.post.Alpha())
	if err != nil {
		return nil, err
	}
	return []Attribution{{"contributions" + f.where(), post[0]}, {"raw" + f.where(), prior}, {"removal" + f.where(), post[1]}}, nil
}

// Influence returns attributions of many rows together (E23): "influence" and "influence at the network", C r with the
// residuals of the sites and with those of the network, and "difference", C (I − (Λh)²)⁻¹ r. At twice the precision the
// last is half of what the target differs by with the row and without it, when all others have the weight ½.
func (f *KernelFit) Influence(ctx context.Context) ([]Attribution, error) {
	_, both, err := f.steps(ctx)
	if err != nil {
		return nil, err
	}
	post, _, err := f.products(ctx, [][]float64{dense.Flat(f.post.Sites().Residual), f.residuals, both}, f.post.Alpha())
	if err != nil {
		return nil, err
	}
	return []Attribution{{"influence" + f.where(), post[0]}, {"influence at the network" + f.where(), post[1]}, {"difference" + f.where(), post[2]}}, nil
}

func (f *KernelFit) where() string {
	if f.atTheta {
		return " at θ*"
	}
	return ""
}

// products returns C(x*,x_i) v_i for each of vectors v, and κ(x*,x_i) α_i, T×N each.
func (f *KernelFit) products(ctx context.Context, vectors [][]float64, alpha []float64) (post []*mat.Dense, prior *mat.Dense, err error) {
	x, err := f.p.targets(ctx, f.p.Network)
	if err != nil {
		return nil, nil, err
	}
	n, c := f.train.Len(), f.train.Outputs()
	var half mat.Dense
	if err := f.thin.HalfTo(ctx, &half, x); err != nil {
		return nil, nil, err
	}
	vectors = append(vectors, alpha)
	k := len(vectors)
	for range k {
		post = append(post, mat.NewDense(x.Len(), n, nil))
	}
	for at := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(at, n, tile)
		// The sums v_iᵀf of the outputs of each example.
		w := mat.NewDense(k*(hi-lo), c, nil)
		for i := range hi - lo {
			for v, of := range vectors {
				w.SetRow(k*i+v, of[(lo+i)*c:(lo+i+1)*c])
			}
		}
		b, err := linearize.GatherCombined(ctx, f.train, between(lo, hi), w)
		if err != nil {
			return nil, nil, err
		}
		var kappa, own mat.Dense
		if err := f.kernel.BlockContextTo(ctx, sized(&kappa, x.Len(), k*(hi-lo)), x, b); err != nil {
			return nil, nil, err
		}
		if err := f.thin.HalfTo(ctx, &own, b); err != nil {
			return nil, nil, err
		}
		cov := mat.DenseCopyOf(&kappa)
		// C(x*,x_i) = κ(x*,x_i) − H(x*)H(x_i)ᵀ (E14)
		dense.Gemm(blas.NoTrans, blas.Trans, -1, half.RawMatrix(), own.RawMatrix(), 1, cov.RawMatrix())
		for t := range x.Len() {
			for i := range hi - lo {
				for v := range k - 1 {
					post[v].Set(t, lo+i, cov.At(t, k*i+v))
				}
				post[k-1].Set(t, lo+i, kappa.At(t, k*i+k-1))
			}
		}
	}
	return post[:k-1], post[k-1], nil
}

// steps returns q_i = (I − Λ_ih_i)⁻¹r_i (E15) and (I − (Λ_ih_i)²)⁻¹r_i of all training rows, N·C each.
func (f *KernelFit) steps(ctx context.Context) (removal, both []float64, err error) {
	n, c := f.train.Len(), f.train.Outputs()
	out := make([]float64, 0, n*c)
	for k := range par.Tiles(n, tile) {
		lo, hi := par.Bounds(k, n, tile)
		var h, q mat.Dense
		if err := f.post.InfluenceTo(ctx, &h, &q, between(lo, hi), f.train.Slice(lo, hi)); err != nil {
			return nil, nil, err
		}
		out = append(out, dense.Flat(&q)...)
		for i := range hi - lo {
			// (I + Λh)⁻¹q
			var own mat.Dense
			own.Mul(dense.Slice(f.post.Sites().Lambda, (lo+i)*c, (lo+i+1)*c), dense.Slice(&h, i*c, (i+1)*c))
			for k := range c {
				own.Set(k, k, own.At(k, k)+1)
			}
			var v mat.VecDense
			if err := v.SolveVec(&own, q.RowView(i)); err != nil {
				return nil, nil, err
			}
			both = append(both, v.RawVector().Data...)
		}
	}
	for i, v := range out {
		if math.IsNaN(v) {
			return nil, nil, fmt.Errorf("evaluate: training row %d alone nearly fixes the function at its own input, so that its removal cannot be told; raise the precision", i/c)
		}
	}
	return out, both, nil
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
	y := gp.NewTargets(f.p.Y, f.p.Likelihood)
	model, err := counterfactual.New(ctx, f.post, f.kernel, y, linearize.Limits{Memory: f.p.MaxMemory})
	if err != nil {
		return nil, err
	}
	x, err := f.p.Network.Linearize(ctx, f.p.TestX)
	if err != nil {
		return nil, err
	}
	t, c := x.F.Dims()
	var cross mat.Dense // κ(x,X), T·C×N·C
	if err := ntk.BlockContextTo(ctx, f.kernel, &cross, x, f.train); err != nil {
		return nil, err
	}
	of := mat.NewDense(t, f.train.Len()*c, nil) // wᵀκ(x,X) for the gradient w of each target
	for k := range t {
		w := make([]float64, c)
		f.p.target().GradientTo(w, f.p.TestY.RawRowView(k), x.F.RawRowView(k))
		for j, v := range w {
			dense.Axpy(of.RawRowView(k), v, cross.RawRowView(k*c+j))
		}
	}
	lost := mat.NewDense(t, len(rows), nil)
	for j, i := range rows {
		without, err := model.Fit(ctx, y.Without(i), nil)
		if err != nil {
			return nil, err
		}
		// m + K_*n α before, less after
		alpha := mat.NewVecDense(f.train.Len()*c, nil)
		alpha.SubVec(mat.NewVecDense(alpha.Len(), f.post.Alpha()), mat.NewVecDense(alpha.Len(), without.Alpha()))
		lost.ColView(j).(*mat.VecDense).MulVec(of, alpha)
	}
	return lost, nil
}
