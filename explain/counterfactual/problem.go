package counterfactual

import (
	"context"
	"errors"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/internal/dense"
	"github.com/funcgp/funcgp/internal/memory"
	"github.com/funcgp/funcgp/internal/newton"
	"github.com/funcgp/funcgp/linearize"
)

// A problem is the refit (E9) after a change. Its examples are the N of the posterior,
// among them those that are left out, whose log p is taken as zero, and then the A added
// ones. Its vectors have (N+A)·C numbers, and their matrices one row for each vector.
//
// The operator W = R B⁻¹ Rᵀ = (K + Λ⁻¹)⁻¹ of the sites at the mode of the posterior, taken
// from its factor, preconditions all solves. For the added examples it is bordered, with
// H = W K_nA and D = R_A(I + R_Aᵀ C_AA R_A)⁻¹R_Aᵀ, C_AA = K_AA − K_An H, by
//
//	W [u_n; u_A] = [W u_n − H s; s],  s = D(u_A − Hᵀu_n).
type problem struct {
	m     *Model
	y     *gp.Targets // of N+A examples; those that are left out have weight 0
	prior []float64   // m
	down  *gp.Downdate

	add         *linearize.Batch // nil for none
	from, among *mat.Dense       // K_An, A·C×N·C, and K_AA
	h           *mat.Dense       // Hᵀ, A·C×N·C
	d           *mat.Dense       // D, A·C×A·C
	lambdaA     *mat.Dense       // Λ_A at the mode, A·C×C
}

// changed prepares the refit after a change.
func (m *Model) changed(ctx context.Context, ch Change) (*problem, error) {
	if err := ch.check(m.y, m.c); err != nil {
		return nil, err
	}
	if a := ch.added(); a > 0 {
		m.outputsOf(ch.Add)
		err := gp.CheckMemory("added training examples", gp.TrainingExamples, a, m.o.Memory, func(a int) int64 {
			rows := memory.Mul(int64(a), int64(m.c))
			return memory.Mul(16, memory.Mul(rows, memory.Add(rows, int64(m.n*m.c))))
		})
		if err != nil {
			return nil, err
		}
	}
	p := &problem{m: m, y: ch.targets(m.y), prior: m.prior}
	var err error
	if p.down, err = m.base.Downdate(ctx, slices.Sorted(slices.Values(ch.Remove))); err != nil {
		return nil, err
	}
	if ch.added() == 0 {
		return p, nil
	}
	return p, p.border(ctx, ch.Add)
}

// border prepares H and D of the added examples.
func (p *problem) border(ctx context.Context, add *linearize.Batch) error {
	m := p.m
	p.add, p.from, p.among, p.h = add, new(mat.Dense), new(mat.Dense), new(mat.Dense)
	rows := add.Len() * m.c
	prior := make([]float64, rows)
	m.kernel.MeanTo(prior, add)
	p.prior = append(append([]float64(nil), m.prior...), prior...)
	if err := m.crossTo(ctx, p.from, add); err != nil {
		return err
	}
	p.among.ReuseAs(rows, rows)
	m.kernel.BlockTo(p.among, add, add)
	p.h.CloneFrom(p.from)
	if err := p.down.SolveTo(ctx, p.h); err != nil {
		return err
	}
	// f_A at the mode of the posterior
	f := mat.NewDense(add.Len(), m.c, nil)
	for i := range rows {
		f.Set(i/m.c, i%m.c, prior[i]+dense.Dot(p.from.RawRowView(i), m.alpha))
	}
	sites, err := gp.NewSites(p.y.Slice(m.n, m.n+add.Len()), f)
	if err != nil {
		return err
	}
	p.lambdaA = sites.Lambda
	var c mat.Dense
	c.Mul(p.from, p.h.T())
	c.Sub(p.among, &c)
	root := mat.NewDense(rows, rows, nil) // with the blocks of R on its diagonal
	for i := range rows {
		copy(root.RawRowView(i)[i/m.c*m.c:], sites.Root.RawRowView(i))
	}
	var b mat.Dense
	b.Product(root.T(), &c, root)
	inner := mat.NewSymDense(rows, nil)
	for i := range rows {
		for j := i; j < rows; j++ {
			inner.SetSym(i, j, (b.At(i, j)+b.At(j, i))/2)
		}
		inner.SetSym(i, i, 1+inner.At(i, i))
	}
	var chol mat.Cholesky
	if !chol.Factorize(inner) {
		return &gp.NotPDError{What: "I + RᵀCR of the added training examples", N: rows, Reason: "the kernel is not a covariance"}
	}
	var half mat.Dense
	if err := chol.SolveTo(&half, root.T()); err != nil && !errors.As(err, new(mat.Condition)) {
		return err
	}
	p.d = new(mat.Dense)
	p.d.Mul(root, &half)
	return nil
}

// gone tells whether an example is left out.
func (p *problem) gone(i int) bool { return p.y.Weight(i) == 0 }

// split returns the columns of a that belong to the examples of the posterior and to the
// added ones.
func (p *problem) split(a *mat.Dense) (of, added *mat.Dense) {
	rows, cols := a.Dims()
	n := p.m.n * p.m.c
	if cols == n {
		return a, nil
	}
	return a.Slice(0, rows, 0, n).(*mat.Dense), a.Slice(0, rows, n, cols).(*mat.Dense)
}

// mulKernelTo writes K v for each row v of a.
func (p *problem) mulKernelTo(ctx context.Context, dst, a *mat.Dense) error {
	dense.SizeTo(dst, a.RawMatrix().Rows, a.RawMatrix().Cols)
	to, toAdded := p.split(dst)
	of, added := p.split(a)
	if err := p.m.base.MulKernelTo(ctx, to, of); err != nil || added == nil {
		return err
	}
	addProduct(to, added, p.from)
	toAdded.Mul(of, p.from.T())
	addProduct(toAdded, added, p.among)
	return nil
}

// addProduct adds A B to dst.
func addProduct(dst, a, b *mat.Dense) {
	var more mat.Dense
	more.Mul(a, b)
	dst.Add(dst, &more)
}

// solveTo replaces each row u of a by W u.
func (p *problem) solveTo(ctx context.Context, a *mat.Dense) error {
	of, added := p.split(a)
	if added == nil {
		return p.down.SolveTo(ctx, of)
	}
	var s, back mat.Dense
	s.Mul(of, p.h.T())
	s.Sub(added, &s)
	added.Mul(&s, p.d)
	if err := p.down.SolveTo(ctx, of); err != nil {
		return err
	}
	back.Mul(added, p.h)
	of.Sub(of, &back)
	return nil
}

// A point is a function in the span of the examples, f = m + Kα, with the likelihood there.
type point struct {
	alpha, f         []float64
	residual, lambda []float64 // r and Λ, zero for examples that are left out
	objective        float64   // Σ log p(y|f) − ½ αᵀKα, −Inf where it is not finite
}

// at returns the point with these α and f.
func (p *problem) at(alpha, f []float64) *point {
	c := p.m.c
	to := &point{alpha: alpha, f: f, residual: make([]float64, len(f)), lambda: make([]float64, len(f)*c)}
	sum := 0.0
	for i := range p.y.Len() {
		sum += p.y.Expand(i, to.residual[i*c:(i+1)*c], to.lambda[i*c*c:(i+1)*c*c], nil, f[i*c:(i+1)*c])
	}
	scatter := 0.0
	for i, a := range alpha {
		scatter += a * (f[i] - p.prior[i])
	}
	to.objective = newton.Finite(sum - scatter/2)
	return to
}

// start returns the mode of the posterior, where added examples have α = 0.
func (p *problem) start(ctx context.Context) (*point, error) {
	size := p.y.Len() * p.m.c
	alpha, f := make([]float64, size), make([]float64, size)
	n := copy(alpha, p.m.alpha)
	copy(f, p.m.f)
	for i := n; i < size; i++ {
		f[i] = p.prior[i] + dense.Dot(p.from.RawRowView(i-n), p.m.alpha)
	}
	return p.at(alpha, f), ctx.Err()
}

// mulLambda replaces v by Λ v, or by v Λ, which is the same.
func mulLambda(v, lambda []float64, c int) {
	old := make([]float64, c)
	for i := range len(v) / c {
		copy(old, v[i*c:(i+1)*c])
		for j := range c {
			v[i*c+j] = floats.Dot(lambda[(i*c+j)*c:(i*c+j+1)*c], old)
		}
	}
}
