package explain_test

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/explain"
	"github.com/funcgp/funcgp/glm"
	"github.com/funcgp/funcgp/glm/weightspace"
	"github.com/funcgp/funcgp/gp"
	"github.com/funcgp/funcgp/gp/kept"
	"github.com/funcgp/funcgp/internal/testkit"
	"github.com/funcgp/funcgp/internal/testref"
	"github.com/funcgp/funcgp/linearize"
	"github.com/funcgp/funcgp/ntk"
)

// groupKernels are those of all groups of the prior.
func groupKernels(k *ntk.NTK) []ntk.Kernel {
	var list []ntk.Kernel
	for g := range k.Groups() {
		list = append(list, k.GroupKernel(g))
	}
	return list
}

// denseLayers are C_g(x*,X) = J_g(x*) [Σ_post J(X)ᵀ]_g by inverting P×P matrices, with Λ
// of the posterior, N·C×C blocks.
func denseLayers(t *testing.T, q *testkit.Problem, lambda *mat.Dense) []*mat.Dense {
	t.Helper()
	p := q.Train.P
	variance := make([]float64, p)
	q.Prior.VarianceTo(variance)
	j, jt := testkit.Jacobian(q.Train), testkit.Jacobian(q.Test)
	precision := testkit.Product(j.T(), testkit.Whole(lambda), j)
	for i, v := range variance {
		precision.Set(i, i, precision.At(i, i)+1/v)
	}
	right := testkit.Product(testkit.Inverse(t, precision), j.T())
	var list []*mat.Dense
	for _, g := range q.Prior.Groups() {
		only := mat.NewDense(p, p, nil)
		for _, s := range g.Spans {
			for i := s.Offset; i < s.Offset+s.Len(); i++ {
				only.Set(i, i, 1)
			}
		}
		list = append(list, testkit.Product(jt, only, right))
	}
	return list
}

// TestE14LayersAddUp compares the parts of the terms with dense algebra over the
// parameters. They add up to the terms, and over the examples to Σ κ_g α.
func TestE14LayersAddUp(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		t.Run(q.Name, func(t *testing.T) {
			exact := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
			at := testref.Must(gp.Fit(t.Context(), q.Kernel, q.Train, q.Sites(t), nil))(t)
			all := testref.Must(kept.Refit(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, nil))(t)
			for _, d := range []gp.Dual{exact, at, all} {
				c := denseLayers(t, q, d.Sites().Lambda)
				for r, row := range explained(t, d, q.Kernel, q.Test, explain.Options{Layers: groupKernels(q.Kernel)}) {
					for k, one := range row {
						requireLayers(t, one, 1e-8)
						if k == q.C {
							continue // a contrast
						}
						for i, term := range one.Terms {
							for g := range c {
								want := 0.0
								for l := range q.C {
									want += c[g].At(r*q.C+k, i*q.C+l) * d.PseudoTargets()[i*q.C+l]
								}
								require.InDelta(t, want, term.Layers[g], 1e-7*largestOf(one))
							}
						}
					}
				}
			}
		})
	}
}

// largestOf is the largest term, which is the scale of rounding.
func largestOf(x explain.Explanation) float64 {
	v := 0.0
	for _, term := range x.Terms {
		v = max(v, term.Value, -term.Value)
		for _, part := range term.Layers {
			v = max(v, part, -part)
		}
	}
	return v
}

// requireLayers requires that the parts add up to each term, and their sums to Sum.
func requireLayers(t *testing.T, x explain.Explanation, rel float64) {
	t.Helper()
	scale, total := largestOf(x), 0.0
	for g, want := range x.Layers {
		sum := 0.0
		for _, term := range x.Terms {
			sum += term.Layers[g]
		}
		require.InDelta(t, want, sum, 1e-10*scale)
		total += want
	}
	require.InDelta(t, x.Sum, total, rel*scale)
	for _, term := range x.Terms {
		sum := 0.0
		for _, v := range term.Layers {
			sum += v
		}
		require.InDelta(t, term.Value, sum, rel*scale)
	}
}

// The sums of the layers are Σ κ_g α, also with rows dropped, and the raw terms split by
// κ_g itself.
func TestE12LayersOfRawTerms(t *testing.T) {
	for _, q := range testkit.Problems(t) {
		some, err := kept.Refit(t.Context(), testkit.InTiles(q.Train, 7), q.Targets(), q.Prior, q.Theta, &kept.Options{Strength: .3})
		require.NoError(t, err)
		kernels := groupKernels(q.Kernel)
		value := explained(t, some, q.Kernel, q.Test, explain.Options{Layers: kernels})
		raw := explained(t, some, q.Kernel, q.Test, explain.Options{Layers: kernels, Terms: gp.RawTerms})
		for g, k := range kernels {
			var cross mat.Dense
			k.BlockTo(&cross, q.Test, q.Train)
			for r := range q.T {
				for o := range q.C {
					scale, want := 0.0, 0.0
					for i := range q.N {
						v := 0.0
						for l := range q.C {
							v += cross.At(r*q.C+o, i*q.C+l) * some.Alpha()[i*q.C+l]
						}
						want += v
						scale += max(v, -v)
						require.InDelta(t, v, raw[r][o].Terms[i].Layers[g], 1e-10*largestRaw(raw[r][o]))
					}
					require.InDelta(t, want, raw[r][o].Layers[g], 1e-10*scale)
					require.InDelta(t, want, value[r][o].Layers[g], 1e-8*scale)
				}
			}
		}
		for _, row := range value {
			for _, one := range row {
				requireLayers(t, one, 1e-8)
			}
		}
	}
}

func largestRaw(x explain.Explanation) float64 {
	v := 0.0
	for _, term := range x.Terms {
		v = max(v, term.Raw, -term.Raw)
	}
	return v
}

// TestLayersAtFullLeverage has posterior covariances of size 1, which are the difference of
// kernels of size 1/δ. The parts are as accurate as the terms.
func TestLayersAtFullLeverage(t *testing.T) {
	for _, delta := range []float64{1e-2, 1e-5, 1e-7} {
		rng := rand.New(rand.NewPCG(3, 6))
		const n, p, first = 24, 20, 7
		spans := []linearize.Span{{Name: "a", Rows: 1, Cols: first}, {Name: "b", Offset: first, Rows: 1, Cols: p - first}}
		batch := func(n int) *linearize.Batch {
			j := normals(rng, n, p)
			return &linearize.Batch{F: normals(rng, n, 1), P: p, Blocks: []linearize.Block{&linearize.Full{J: j, C: 1, Params: spans}}}
		}
		x, test, y := batch(n), batch(2), normals(rng, n, 1)
		lik := testref.Must(glm.NewGaussian(1))(t)
		prior := testref.Must(ntk.NewLayerwise(p, ntk.ByTensor(spans, delta), nil))(t)
		k := ntk.New(prior, make([]float64, p))
		post := testref.Must(gp.Refit(t.Context(), k, x, gp.NewTargets(y, lik), nil))(t)
		j, jt := testkit.Jacobian(x), testkit.Jacobian(test)
		precision := testkit.Product(j.T(), j)
		for i := range p {
			precision.Set(i, i, precision.At(i, i)+delta)
		}
		right := testkit.Product(testkit.Inverse(t, precision), j.T())
		rel := max(1e-10, 3e-14/delta)
		for r, row := range explained(t, post, k, test, explain.Options{Layers: groupKernels(k)}) {
			requireLayers(t, row[0], rel)
			for i, term := range row[0].Terms {
				c := make([]float64, 2)
				for q := range p {
					c[min(1, q/first)] += jt.At(r, q) * right.At(q, i)
				}
				for g := range c {
					require.InDelta(t, c[g]*post.PseudoTargets()[i], term.Layers[g], rel*largestOf(row[0]))
				}
			}
		}
	}
}

// A posterior that cannot be split is refused, and so is one that needs too much memory.
func TestLayersThatAreRefused(t *testing.T) {
	q := testkit.Problems(t)[0]
	kernels := groupKernels(q.Kernel)
	iterative := testref.Must(weightspace.RefitSums(t.Context(), q.Train, q.Targets(), q.Prior, q.Theta, nil, nil))(t)
	_, err := explain.New(iterative, q.Kernel, &explain.Options{Layers: kernels})
	require.EqualError(t, err, "explain: the terms of a *gp.Posterior cannot be split by layer; use an exact posterior or one of kept rows")

	post := testref.Must(gp.Refit(t.Context(), q.Kernel, q.Train, q.Targets(), nil))(t)
	e := testref.Must(explain.New(post, q.Kernel, &explain.Options{Layers: kernels, Limits: linearize.Limits{Memory: 1000}}))(t)
	testref.As[*gp.MemoryError](t, testref.Err(e.Explain(t.Context(), q.Test)))
}
