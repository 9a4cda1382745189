package novelty

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/funcgp/funcgp/glm"
)

type tail func(train []float64) func(s float64) float64

func sorted(v []float64) []float64 {
	s := slices.DeleteFunc(slices.Clone(v), math.IsNaN)
	slices.Sort(s)
	return s
}

func bulk(s []float64, q int, v float64) float64 {
	i, _ := slices.BinarySearch(s, v)
	return -math.Log(1 - (float64(i))/float64(len(s)+1))
}

// surprise by interpolated empirical survival up to the quantile, then a tail
func pareto(share float64) tail {
	return func(train []float64) func(float64) float64 {
		s := sorted(train)
		q := int(float64(len(s)) * (1 - share))
		u := s[q]
		a := 0.0
		for _, v := range s[q:] {
			a += math.Log(v / u)
		}
		a /= float64(len(s) - q)
		return func(v float64) float64 {
			if v <= u {
				return bulk(s, q, v)
			}
			return -math.Log(share) + math.Log(v/u)/a
		}
	}
}
func expo(share float64) tail {
	return func(train []float64) func(float64) float64 {
		s := sorted(train)
		q := int(float64(len(s)) * (1 - share))
		u := s[q]
		a := 0.0
		for _, v := range s[q:] {
			a += v - u
		}
		a /= float64(len(s) - q)
		return func(v float64) float64 {
			if v <= u {
				return bulk(s, q, v)
			}
			return -math.Log(share) + (v-u)/a
		}
	}
}

func TestCombine(t *testing.T) {
	type named struct {
		name string
		tab  table2
	}
	var tabs []named
	for _, c := range cases {
		b, err := os.ReadFile("/tmp/novelty-cache/" + c.name + ".json")
		if err != nil {
			continue
		}
		var tab table2
		if err := json.Unmarshal(b, &tab); err != nil {
			t.Fatal(err)
		}
		tabs = append(tabs, named{c.name, tab})
	}
	baselines := []string{"msp", "energy", "in-mahac-3", "in-knn5", "last-cos5"}
	if b := os.Getenv("BASE"); b != "" {
		baselines = strings.Split(b, ",")
	}
	best := func(tab table2, o string) float64 {
		v := 0.0
		for _, b := range baselines {
			if tab.Test[b] != nil {
				v = max(v, glm.AUROC(tab.Test[b], tab.Others[o][b]))
			}
		}
		return v
	}
	ext := func(s scores) scores {
		out := scores{}
		for k, v := range s {
			out[k] = v
			if strings.Contains(k, "maha") && !strings.Contains(k, "last") {
				r := make([]float64, len(v))
				for i := range v {
					r[i] = math.Sqrt(v[i])
				}
				out[k+"r"] = r
			}
		}
		out["v2"] = make([]float64, len(s["v"]))
		for i, a := range s["v"] {
			out["v2"][i] = a * a
		}
		return out
	}
	rules := map[string]func(v []float64) float64{
		"max":  slices.Max[[]float64],
		"mean": func(v []float64) float64 { s := 0.0; for _, a := range v { s += a }; return s },
	}
	tails := map[string]tail{"pareto.2": pareto(.2), "pareto.1": pareto(.1), "pareto.5": pareto(.5), "exp.1": expo(.1), "exp.2": expo(.2), "exp.5": expo(.5)}
	combos := [][]string{}
	for _, v := range []string{"v", "vrel", "vtr"} {
		for _, m := range []string{"in-mahac-3r", "in-maha-3r", "in-maha-2r", "in-mahac-2r"} {
			for _, c := range []string{"in-cos1", "sc-ccos", "sc-s1cos", "sc-s2cos", "sc-s3cos", "in-knn1", "sc-s1knn", "sc-s2knn", ""} {
				combo := []string{v, m, c}
				if c == "" {
					combo = combo[:2]
				}
				combos = append(combos, combo)
			}
		}
	}
	type result struct {
		text        string
		worst, mean float64
		detail      string
	}
	var all []result
	for _, combo := range combos {
		for tn, tl := range tails {
			for rn, rule := range rules {
				r := result{text: fmt.Sprintf("%-45s %-9s %-5s", strings.Join(combo, "+"), tn, rn), worst: 1}
				cnt := 0.0
				for _, n := range tabs {
					tr, te := ext(n.tab.Train), ext(n.tab.Test)
					score := func(s scores) []float64 {
						out := make([]float64, len(s["v"]))
						fs := make([]func(float64) float64, len(combo))
						for k, c := range combo {
							fs[k] = tl(tr[c])
						}
						v := make([]float64, len(combo))
						for i := range out {
							for k, c := range combo {
								v[k] = fs[k](s[c][i])
							}
							out[i] = rule(v)
						}
						return out
					}
					in := score(te)
					for o := range n.tab.Others {
						a := glm.AUROC(in, score(ext(n.tab.Others[o]))) - best(n.tab, o)
						r.mean += a
						cnt++
						if a < r.worst {
							r.worst = a
						}
						if a < -.01 {
							r.detail += fmt.Sprintf(" %.6s/%.3s%.3f", n.name, o, a)
						}
					}
				}
				r.mean /= cnt
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b result) int {
		if a.worst > b.worst {
			return -1
		}
		return 1
	})
	for _, r := range all[:40] {
		fmt.Printf("%s %.4f %.4f %s\n", r.text, r.worst, r.mean, r.detail)
	}
	for _, n := range tabs {
		for o := range n.tab.Others {
			fmt.Printf("%s/%s %.3f; ", n.name, o, best(n.tab, o))
		}
	}
	fmt.Println()
}
