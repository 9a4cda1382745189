package dense

import (
	"context"
	"errors"
	"testing"

	"gonum.org/v1/gonum/blas"
)

// A countdown is a context that is cancelled once it has been asked left times.
// It counts how often it is asked.
type countdown struct {
	context.Context
	left, asked int
}

func (p *countdown) Err() error {
	if p.asked++; p.asked > p.left {
		return context.Canceled
	}
	return nil
}

// longCalls are calls of many panels on a matrix of their own.
func longCalls() map[string]func(ctx context.Context) ([]float64, error) {
	const n = 4*depth + 9
	rnd := source(5)
	wide, tall, square := general(rnd, n, n, 0), general(rnd, n, n, 0), general(rnd, n, n, 0)
	a := definite(rnd, n, 0, blas.Upper)
	factor := clone(a)
	u, _ := Potrf(asSymmetric(factor, blas.Upper))
	return map[string]func(ctx context.Context) ([]float64, error){
		"Gemm": func(ctx context.Context) ([]float64, error) {
			c := clone(square)
			return c.Data, GemmContext(ctx, blas.NoTrans, blas.Trans, 1, wide, tall, 1, c)
		},
		"GemmUpper": func(ctx context.Context) ([]float64, error) {
			c, upper := clone(square), clone(wide)
			for i := range n {
				clear(upper.Data[i*n : i*n+i])
			}
			return c.Data, GemmUpperContext(ctx, tall, upper, c)
		},
		"Symm": func(ctx context.Context) ([]float64, error) {
			c := clone(square)
			return c.Data, SymmContext(ctx, blas.Right, 1, asSymmetric(a, blas.Upper), tall, 1, c)
		},
		"Syrk": func(ctx context.Context) ([]float64, error) {
			c := clone(square)
			return c.Data, SyrkContext(ctx, blas.NoTrans, 1, wide, 1, asSymmetric(c, blas.Lower))
		},
		"Trsm": func(ctx context.Context) ([]float64, error) {
			c := clone(square)
			return c.Data, TrsmContext(ctx, blas.Right, blas.NoTrans, 1, u, c)
		},
		"Potrf": func(ctx context.Context) ([]float64, error) {
			c := clone(a)
			t, ok, err := PotrfContext(ctx, asSymmetric(c, blas.Upper))
			if err == nil && (!ok || t.N != n) {
				return nil, errors.New("not positive definite")
			}
			return c.Data, err
		},
		"Pstrf": func(ctx context.Context) ([]float64, error) {
			c := clone(a)
			_, rank, err := PstrfContext(ctx, asSymmetric(c, blas.Upper), make([]int, n), -1)
			if err == nil && rank != n {
				return nil, errors.New("not positive definite")
			}
			return c.Data, err
		},
	}
}

// A call that is cancelled does no further panel: the context is not asked
// again. One that is not has the bits of the call without a context, on any
// number of processors.
func TestContext(t *testing.T) {
	for name, call := range longCalls() {
		var want []float64
		var err error
		withProcs(1, func() { want, err = call(context.Background()) })
		if err != nil {
			t.Fatal(name, err)
		}
		whole := &countdown{Context: t.Context(), left: 1 << 30}
		for _, procs := range []int{1, 2, 3} {
			whole.asked = 0
			var got []float64
			withProcs(procs, func() { got, err = call(whole) })
			if err != nil {
				t.Fatal(name, err)
			}
			for i := range want {
				if got[i] != want[i] && want[i] == want[i] {
					t.Fatalf("%s: %d processors change element %d", name, procs, i)
				}
			}
		}
		if whole.asked < 2 {
			t.Errorf("%s looks at its context %d times", name, whole.asked)
		}
		for _, left := range []int{0, 1, whole.asked / 2, whole.asked - 1} {
			if left >= whole.asked {
				continue
			}
			ctx := &countdown{Context: t.Context(), left: left}
			if _, err := call(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: cancelled after %d panels of %d: %v", name, left, whole.asked, err)
			}
			if ctx.asked != left+1 {
				t.Errorf("%s: cancelled after %d panels, looks %d times", name, left, ctx.asked)
			}
		}
	}
}
