package evaluate_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/score"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
	"github.com/funcgp/funcgp/ntk"
	"github.com/funcgp/funcgp/studies/evaluate"
)

// problem returns a small network trained for a while on random rows of classes, two with
// one output.
func problem(t *testing.T, outputs int) *evaluate.Problem {
	t.Helper()
	rng := rand.New(rand.NewPCG(uint64(outputs), 1))
	rows := func(n int) (x, y *mat.Dense) {
		x, y = mat.NewDense(n, 4, nil), mat.NewDense(n, 1, nil)
		for i := range n {
			class := rng.IntN(max(2, outputs))
			y.Set(i, 0, float64(class))
			for j := range 4 {
				x.Set(i, j, rng.NormFloat64())
			}
			x.Set(i, class%4, x.At(i, class%4)+2)
		}
		return x, y
	}
	p := &evaluate.Problem{Likelihood: glm.Likelihood(glm.Categorical{})}
	if outputs == 1 {
		p.Likelihood = glm.Bernoulli{}
	}
	p.X, p.Y = rows(40)
	p.TestX, p.TestY = rows(7)
	start, err := network.Seeded(3, network.Shape{4}, network.Dense{Units: 5}, network.Tanh, network.Dense{Units: outputs})
	require.NoError(t, err)
	p.Initial = start.Theta()
	p.Network = start
	for range 2 {
		p.Network, _, err = train.MAP(t.Context(), p.Network, p.X, p.Y, p.Likelihood, &train.Options{Epochs: 8, Batch: 10, LBFGS: -1, LearningRate: 0.02})
		require.NoError(t, err)
		p.Checkpoints = append(p.Checkpoints, evaluate.Checkpoint{Network: p.Network, Rate: 0.1})
	}
	return p
}

func attribute(t *testing.T, m evaluate.Method, p *evaluate.Problem) map[string]*mat.Dense {
	t.Helper()
	list, err := m.Attribute(t.Context(), p)
	require.NoError(t, err)
	out := map[string]*mat.Dense{}
	for _, a := range list {
		require.NotContains(t, out, a.Name)
		out[a.Name] = a.Scores
	}
	return out
}

func requireNear(t *testing.T, want, got mat.Matrix, tol float64) {
	t.Helper()
	var off mat.Dense
	off.Sub(want, got)
	require.LessOrEqual(t, mat.Norm(&off, math.Inf(1)), tol*math.Max(mat.Norm(want, math.Inf(1)), 1e-3))
}

// jacobians returns J of all outputs at the rows of x.
func jacobians(t *testing.T, net *network.Network, x *mat.Dense) *mat.Dense {
	t.Helper()
	b, err := net.Linearize(t.Context(), x)
	require.NoError(t, err)
	var j mat.Dense
	b.JacobianTo(&j)
	return &j
}

// gradients returns wᵀJ of each row with the weights of a function of target and outputs.
func gradients(t *testing.T, net *network.Network, x, y *mat.Dense, weigh func(w, y, f []float64)) *mat.Dense {
	t.Helper()
	f, err := net.Forward(t.Context(), x)
	require.NoError(t, err)
	n, c := f.Dims()
	j := jacobians(t, net, x)
	_, params := j.Dims()
	out := mat.NewDense(n, params, nil)
	w := make([]float64, c)
	for i := range n {
		weigh(w, y.RawRowView(i), f.RawRowView(i))
		for k, v := range w {
			for q := range params {
				out.Set(i, q, out.At(i, q)+v*j.At(i*c+k, q))
			}
		}
	}
	return out
}

func (s slow) targets(net *network.Network) *mat.Dense {
	return gradients(s.t, net, s.p.TestX, s.p.TestY, evaluate.Margin{}.GradientTo)
}

func (s slow) losses(net *network.Network) *mat.Dense {
	return gradients(s.t, net, s.p.X, s.p.Y, func(w, y, f []float64) { s.p.Likelihood.Expand(w, nil, nil, y, f) })
}

// slow computes scores from dense gradients.
type slow struct {
	t *testing.T
	p *evaluate.Problem
}

// The products of gradients and their sums over checkpoints are those of dense gradients.
func TestGradientMethods(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		p := problem(t, outputs)
		s := slow{t, p}
		var dot, sum mat.Dense
		a, b := s.targets(p.Network), s.losses(p.Network)
		dot.Mul(a, b.T())
		got := attribute(t, evaluate.GradientDot{}, p)
		requireNear(t, &dot, got["gradient dot"], 1e-12)
		cos := mat.DenseCopyOf(&dot)
		cos.Apply(func(i, j int, v float64) float64 { return v / mat.Norm(a.RowView(i), 2) / mat.Norm(b.RowView(j), 2) }, cos)
		requireNear(t, cos, got["gradient cosine"], 1e-12)
		for _, at := range p.Checkpoints {
			var one mat.Dense
			one.Mul(s.targets(at.Network), s.losses(at.Network).T())
			one.Scale(at.Rate, &one)
			if sum.IsEmpty() {
				sum.CloneFrom(&one)
			} else {
				sum.Add(&sum, &one)
			}
		}
		requireNear(t, &sum, attribute(t, evaluate.TracIn{}, p)["TracIn"], 1e-12)
	}
}

// trakAt returns g_t (GᵀG)⁻¹g_i of the dense gradients of margins at net, and 1 − p_i.
func trakAt(t *testing.T, p *evaluate.Problem, net *network.Network) (terms *mat.Dense, weights []float64) {
	t.Helper()
	margins := gradients(t, net, p.X, p.Y, evaluate.Margin{}.GradientTo)
	n, params := margins.Dims()
	require.Less(t, params, n)
	var gram, solved, want mat.Dense
	gram.Mul(margins.T(), margins)
	require.NoError(t, solved.Solve(&gram, margins.T()))
	want.Mul(slow{t, p}.targets(net), &solved)
	f, err := net.Forward(t.Context(), p.X)
	require.NoError(t, err)
	for i := range n {
		weights = append(weights, 1-math.Exp(p.Likelihood.LogProb(p.Y.RawRowView(i), f.RawRowView(i))))
	}
	return &want, weights
}

// TRAK with as many columns as parameters does not depend on the projection: it is
// g_t (GᵀG)⁻¹g_i (1 − p_i) of the dense gradients of margins.
func TestTRAKOfFullRank(t *testing.T) {
	p := problem(t, 1)
	want, weights := trakAt(t, p, p.Network)
	_, _, params := p.Network.Dims()
	want.Apply(func(_, i int, v float64) float64 { return v * weights[i] }, want)
	for seed := range uint64(2) {
		requireNear(t, want, attribute(t, evaluate.TRAK{Dim: params, Seed: seed}, p)["TRAK"], 1e-6)
	}
}

// TRAK of several networks is the mean of the first factor times the mean of the second,
// and not the mean of their products.
func TestTRAKOfSeveralNetworks(t *testing.T) {
	p := problem(t, 1)
	_, _, params := p.Network.Dims()
	var nets []*network.Network
	for _, at := range p.Checkpoints {
		nets = append(nets, at.Network)
	}
	require.GreaterOrEqual(t, len(nets), 2)
	want, products := new(mat.Dense), new(mat.Dense)
	mean := make([]float64, 40)
	for k, net := range nets {
		terms, weights := trakAt(t, p, net)
		product := mat.DenseCopyOf(terms)
		product.Apply(func(_, i int, v float64) float64 { return v * weights[i] / float64(len(nets)) }, product)
		if k == 0 {
			want.CloneFrom(terms)
			products.CloneFrom(product)
		} else {
			want.Add(want, terms)
			products.Add(products, product)
		}
		for i, w := range weights {
			mean[i] += w / float64(len(nets)*len(nets))
		}
	}
	want.Apply(func(_, i int, v float64) float64 { return v * mean[i] }, want)
	got := attribute(t, evaluate.TRAK{Dim: params, Networks: nets}, p)["TRAK"]
	requireNear(t, want, got, 1e-6)
	products.Sub(products, want)
	require.Greater(t, mat.Max(products), 1e-3*mat.Max(want), "the mean of products is another number")
}

// The projections of two networks differ, those of a seed do not.
func TestTRAKProjections(t *testing.T) {
	p := problem(t, 1)
	at := func(k int) *mat.Dense {
		terms, _, err := evaluate.TRAK{Dim: 4, Seed: 2}.Factors(t.Context(), p, p.Network, k)
		require.NoError(t, err)
		return terms
	}
	require.True(t, mat.Equal(at(1), at(1)))
	require.False(t, mat.EqualApprox(at(0), at(1), 1e-6))
}

// EK-FAC is g_tᵀU(Λ + damping)⁻¹Uᵀg_i by layers, with U the Kronecker product of the
// eigenvectors of the factors, and Λ the diagonal of UᵀHU; also of fewer rows than a layer
// has inputs.
func TestEKFAC(t *testing.T) {
	for _, n := range []int{40, 4} {
		p := problem(t, 3)
		p.X, p.Y = p.X.Slice(0, n, 0, 4).(*mat.Dense), p.Y.Slice(0, n, 0, 1).(*mat.Dense)
		requireEKFAC(t, p, n)
	}
}

func requireEKFAC(t *testing.T, p *evaluate.Problem, rows int) {
	t.Helper()
	const damping = 0.2
	s := slow{t, p}
	a, b := s.targets(p.Network), s.losses(p.Network)
	f, err := p.Network.Forward(t.Context(), p.X)
	require.NoError(t, err)
	sites, err := gp.NewSites(gp.NewTargets(p.Y, p.Likelihood), f)
	require.NoError(t, err)
	batch, err := p.Network.Linearize(t.Context(), p.X)
	require.NoError(t, err)
	j := jacobians(t, p.Network, p.X)
	var want mat.Dense
	for _, block := range batch.Blocks {
		basis, index := kroneckerBasis(t, p, block, sites)
		var h mat.Dense
		jl := columns(j, index)
		for n := range rows {
			var one, lj mat.Dense
			jn := jl.Slice(3*n, 3*n+3, 0, len(index))
			lj.Mul(sites.Lambda.Slice(3*n, 3*n+3, 0, 3), jn)
			one.Mul(jn.T(), &lj)
			if h.IsEmpty() {
				h.CloneFrom(&one)
			} else {
				h.Add(&h, &one)
			}
		}
		var rotated, ra, rb mat.Dense
		rotated.Product(basis.T(), &h, basis)
		mean := mat.Trace(&rotated) / float64(len(index))
		ra.Mul(columns(a, index), basis)
		rb.Mul(columns(b, index), basis)
		ra.Apply(func(_, q int, v float64) float64 { return v / (rotated.At(q, q) + damping*mean) }, &ra)
		var part mat.Dense
		part.Mul(&ra, rb.T())
		if want.IsEmpty() {
			want.CloneFrom(&part)
		} else {
			want.Add(&want, &part)
		}
	}
	requireNear(t, &want, attribute(t, evaluate.EKFAC{Damping: damping}, p)["EK-FAC"], 1e-9)
}

// The scores of the kernel are those of package explain for the exact posterior, summed
// over outputs with the weights of the target.
func TestKernelIsExplained(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for _, m := range []evaluate.Kernel{{Precision: 2}, {Precision: 2, FromInitial: true}} {
			p := problem(t, outputs)
			var mean []float64
			if m.FromInitial {
				mean = p.Initial
			}
			prior, err := ntk.NewIsotropic(2, mean)
			require.NoError(t, err)
			k := ntk.New(prior, p.Network.Theta())
			train, err := p.Network.Linearize(t.Context(), p.X)
			require.NoError(t, err)
			post, err := gp.Refit(t.Context(), k, train, gp.NewTargets(p.Y, p.Likelihood), nil)
			require.NoError(t, err)
			e, err := explain.New(post, k, &explain.Options{All: true})
			require.NoError(t, err)
			test, err := p.Network.Linearize(t.Context(), p.TestX)
			require.NoError(t, err)
			rows, err := e.Explain(t.Context(), test)
			require.NoError(t, err)
			want := map[string]*mat.Dense{}
			for _, name := range []string{"contributions", "raw", "removal"} {
				want[name] = mat.NewDense(7, 40, nil)
			}
			w := make([]float64, outputs)
			for i, row := range rows {
				evaluate.Margin{}.GradientTo(w, p.TestY.RawRowView(i), test.F.RawRowView(i))
				for c, x := range row {
					for n := range 40 {
						for name, v := range map[string]float64{"contributions": x.All.Value[n], "raw": x.All.Raw[n], "removal": -x.All.Removal[n]} {
							want[name].Set(i, n, want[name].At(i, n)+w[c]*v)
						}
					}
				}
			}
			for name, got := range attribute(t, m, p) {
				requireNear(t, want[name], got, 1e-7)
			}
			requireInfluence(t, m, p, post, train, test)
			requireSelection(t, m, p, post, train)
		}
	}
}

// requireInfluence compares influence with products of the joint covariance of test and training rows.
func requireInfluence(t *testing.T, m evaluate.Kernel, p *evaluate.Problem, post *gp.Exact, train, test *linearize.Batch) {
	t.Helper()
	f, err := m.Fit(t.Context(), p)
	require.NoError(t, err)
	list, err := f.Influence(t.Context())
	require.NoError(t, err)
	atTheta, err := gp.SitesFrom(t.Context(), train, gp.NewTargets(p.Y, p.Likelihood))
	require.NoError(t, err)
	var joint mat.Dense
	require.NoError(t, post.JointTo(t.Context(), nil, &joint, linearize.Concat(test, train)))
	n, c := train.F.Dims()
	rows, w := test.Len(), make([]float64, c)
	want := []*mat.Dense{mat.NewDense(rows, n, nil), mat.NewDense(rows, n, nil), mat.NewDense(rows, n, nil)}
	for i := range n {
		at := (rows + i) * c
		h, lambda := joint.Slice(at, at+c, at, at+c), post.Sites().Lambda.Slice(i*c, (i+1)*c, 0, c)
		r := post.Sites().Residual.RowView(i)
		// (I − (Λh)²)⁻¹r
		var leverage, square mat.Dense
		leverage.Mul(lambda, h)
		square.Mul(&leverage, &leverage)
		square.Scale(-1, &square)
		for k := range c {
			square.Set(k, k, square.At(k, k)+1)
		}
		var both mat.VecDense
		require.NoError(t, both.SolveVec(&square, r))
		for k, v := range []mat.Vector{r, atTheta.Residual.RowView(i), &both} {
			for row := range rows {
				evaluate.Margin{}.GradientTo(w, p.TestY.RawRowView(row), test.F.RawRowView(row))
				var move mat.VecDense
				move.MulVec(joint.Slice(row*c, (row+1)*c, at, at+c), v)
				want[k].Set(row, i, mat.Dot(mat.NewVecDense(c, w), &move))
			}
		}
	}
	for k, name := range []string{"influence", "influence at the network", "difference"} {
		require.Equal(t, name, list[k].Name)
		requireNear(t, want[k], list[k].Scores, 1e-7)
	}
}

// requireSelection compares the evidence and the score of leave-one-out with those of the
// exact posterior.
func requireSelection(t *testing.T, m evaluate.Kernel, p *evaluate.Problem, post *gp.Exact, train *linearize.Batch) {
	t.Helper()
	f, err := m.Fit(t.Context(), p)
	require.NoError(t, err)
	require.InEpsilon(t, post.EvidenceRefit().Value, f.Evidence(), 1e-8)
	var mean, cov mat.Dense
	order := make([]int, 40)
	for i := range order {
		order[i] = i
	}
	require.NoError(t, post.LeaveOneOutTo(t.Context(), &mean, &cov, order, train))
	want, err := score.ScoreOf(nil, p.Likelihood, p.Y, &mean, &cov)
	require.NoError(t, err)
	got, err := f.LeaveOneOut(t.Context())
	require.NoError(t, err)
	require.InEpsilon(t, want.NLL, got, 1e-7)
}

// The representer points of a test row add up to wᵀf of the last layer fitted again,
// whose parameters are found here by gradient steps.
func TestRepresenterPointsAddUp(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		p := problem(t, outputs)
		points := attribute(t, evaluate.LastLayer{Precision: 3}, p)["representer points"]
		hidden := func(x *mat.Dense) *mat.Dense {
			b, err := p.Network.Linearize(t.Context(), x)
			require.NoError(t, err)
			j := mat.NewDense(b.Len(), 6, nil)
			for i := range b.Len() {
				for q := range 5 {
					// The weights of output 0 of the last layer are 5 parameters.
					j.Set(i, q, jacobianAt(b.JacobianTo, i*outputs, 25+q))
				}
				j.Set(i, 5, 1)
			}
			return j
		}
		h, ht := hidden(p.X), hidden(p.TestX)
		v := mat.NewDense(6, outputs, nil)
		r := make([]float64, outputs)
		for range 6000 {
			var f, grad mat.Dense
			f.Mul(h, v)
			for i := range 40 {
				p.Likelihood.Expand(r, nil, nil, p.Y.RawRowView(i), f.RawRowView(i))
				f.SetRow(i, r)
			}
			grad.Mul(h.T(), &f)
			for i := range 6 {
				for c := range outputs {
					v.Set(i, c, v.At(i, c)+0.02*(grad.At(i, c)-3*v.At(i, c)))
				}
			}
		}
		var f mat.Dense
		f.Mul(ht, v)
		out, err := p.Network.Forward(t.Context(), p.TestX)
		require.NoError(t, err)
		w := make([]float64, outputs)
		for i := range 7 {
			evaluate.Margin{}.GradientTo(w, p.TestY.RawRowView(i), out.RawRowView(i))
			want := mat.Dot(mat.NewVecDense(outputs, w), f.RowView(i))
			require.InDelta(t, want, mat.Sum(points.RowView(i)), 1e-6)
		}
	}
}

// several is TRAK of the checkpoints of a problem.
type several struct{}

func (several) Attribute(ctx context.Context, p *evaluate.Problem) ([]evaluate.Attribution, error) {
	m := evaluate.TRAK{Dim: 10, Seed: 1}
	for _, at := range p.Checkpoints {
		m.Networks = append(m.Networks, at.Network)
	}
	return m.Attribute(ctx, p)
}

// methods are all of them.
func methods() map[string]evaluate.Method {
	return map[string]evaluate.Method{
		"gradient": evaluate.GradientDot{}, "tracin": evaluate.TracIn{}, "trak": evaluate.TRAK{Dim: 10, Seed: 1}, "several": several{}, "ekfac": evaluate.EKFAC{},
		"last layer": evaluate.LastLayer{}, "kernel": evaluate.Kernel{Precision: 3}, "kept": evaluate.Kernel{Precision: 3, Strength: 0.05},
		"initial": evaluate.Kernel{Precision: 3, FromInitial: true}, "network": evaluate.Kernel{Precision: 3, AtTheta: true},
		"along": evaluate.AlongTraining{Kernel: evaluate.Kernel{Precision: 3, AtTheta: true}},
	}
}

// Every method gives finite T×N scores that are bit-identical for any number of processors,
// belong to each test row alone, and follow the training rows into another order.
func TestConformance(t *testing.T) {
	for _, outputs := range []int{1, 3} {
		for name, m := range methods() {
			p := problem(t, outputs)
			testref.Procs(t, 1)
			want := attribute(t, m, p)
			order := rand.New(rand.NewPCG(1, 2)).Perm(40)
			other, few := *p, *p
			other.X, other.Y = permuted(p.X, order), permuted(p.Y, order)
			few.TestX, few.TestY = permuted(p.TestX, []int{5, 2}), permuted(p.TestY, []int{5, 2})
			testref.Procs(t, 3)
			for what, scores := range attribute(t, m, p) {
				require.True(t, mat.Equal(want[what], scores), "%s: %s", name, what)
				rows, n := scores.Dims()
				require.Equal(t, []int{7, 40}, []int{rows, n})
				require.False(t, math.IsNaN(mat.Sum(scores)) || math.IsInf(mat.Sum(scores), 0))
			}
			for what, scores := range attribute(t, m, &few) {
				for i, at := range []int{5, 2} {
					requireNear(t, want[what].RowView(at), scores.RowView(i), 1e-10)
				}
			}
			for what, scores := range attribute(t, m, &other) {
				for i, at := range order {
					requireNear(t, want[what].ColView(at), scores.ColView(i), 1e-6)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			_, err := m.Attribute(ctx, p)
			require.ErrorIs(t, err, context.Canceled, name)
		}
	}
}

func permuted(m *mat.Dense, rows []int) *mat.Dense {
	_, c := m.Dims()
	to := mat.NewDense(len(rows), c, nil)
	for i, at := range rows {
		to.SetRow(i, m.RawRowView(at))
	}
	return to
}

// The gradients of targets are those of differences, and Margin is log p/(1 − p).
func TestTargets(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, c := range []int{1, 2, 4} {
		lik := glm.Likelihood(glm.Categorical{})
		if c == 1 {
			lik = glm.Bernoulli{}
		}
		for _, target := range []evaluate.Target{evaluate.Margin{}, evaluate.LogProb{Likelihood: lik}} {
			for range 20 {
				f, y := make([]float64, c), []float64{float64(rng.IntN(max(2, c)))}
				for i := range f {
					f[i] = 2 * rng.NormFloat64()
				}
				p := math.Exp(lik.LogProb(y, f))
				require.InDelta(t, math.Log(p/(1-p)), evaluate.Margin{}.Value(y, f), 1e-9)
				grad := make([]float64, c)
				target.GradientTo(grad, y, f)
				for i := range f {
					const step = 1e-5
					at := append([]float64(nil), f...)
					at[i] += step
					up := target.Value(y, at)
					at[i] -= 2 * step
					require.InDelta(t, (up-target.Value(y, at))/(2*step), grad[i], 1e-8)
				}
			}
		}
	}
}
