package campaign

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// others opens posteriors of every method with networks that are not theirs: of the same shapes with other
// parameters, of the same number of parameters with another activation, of other widths, of other classes,
// and a copy, which is theirs.
var others = Part{Name: "others", Short: "posteriors of every method opened with other networks than their own: refused in one line that says what is another",
	Run: func(ctx context.Context, env *Env, r *Result) error {
		for n := uint64(0); ctx.Err() == nil; n++ {
			if err := otherTurn(ctx, env, r, n); err != nil && ctx.Err() == nil {
				return err
			}
		}
		return nil
	}}

func otherTurn(ctx context.Context, env *Env, r *Result, n uint64) error {
	rng := env.Rand(n)
	train := func(name, arch, activation, classes string, seed int) error {
		_, stderr, exit := env.Gpexplain(ctx, "train", "--quiet", "--data", "digits:300,20", "--classes", classes, "--train-count", "40",
			"--arch", arch, "--activation", activation, "--epochs", "1", "--lbfgs", "2", "--seed", fmt.Sprint(seed), "--out", name+".onnx")
		if exit != 0 {
			return fmt.Errorf("train %s: %s", name, stderr)
		}
		return nil
	}
	width, seed := 2+rng.IntN(4), rng.IntN(1000)
	arch := fmt.Sprintf("mlp:%d-1", width)
	networks := []struct{ name, arch, activation, classes, says string }{
		{"own", arch, "tanh", "4,9", ""},
		{"copy", arch, "tanh", "4,9", ""},
		{"parameters", arch, "tanh", "4,9", "the parameters of the network are others"},
		{"activation", arch, "relu", "4,9", "the graph of the network is another"},
		{"widths", fmt.Sprintf("mlp:%d-1", width+1), "tanh", "4,9", "network"},
		{"layers", fmt.Sprintf("mlp:%d-2-1", width), "tanh", "4,9", "network"},
		{"classes", arch, "tanh", "1,7", ""},
		{"outputs", fmt.Sprintf("mlp:%d-3", width), "tanh", "1,4,9", ""},
	}
	for _, m := range networks {
		at := seed
		if m.name == "parameters" {
			at++
		}
		if err := train(m.name, m.arch, m.activation, m.classes, at); err != nil {
			return err
		}
	}
	for _, method := range [][]string{{"exact"}, {"kept"}, {"subset", "--inducing", "20"}, {"nystrom", "--inducing", "10"},
		{"parameters"}, {"exact", "--with-inputs"}, {"exact", "--bundle"}, {"exact", "--refit"}, {"exact", "--at", "3"}} {
		args := append([]string{"fit", "--quiet", "--model", "own.onnx", "--data", "digits:300,20", "--train-count", "40", "--out", "others.gp", "--method"}, method...)
		if _, stderr, exit := env.Gpexplain(ctx, args...); exit != 0 {
			return fmt.Errorf("%q: %s", args, stderr)
		}
		want := ""
		for _, m := range networks {
			for _, verb := range []string{"predict", "explain"} {
				ask := []string{verb, "--quiet", "--posterior", "others.gp", "--model", m.name + ".onnx"}
				if verb == "explain" {
					ask = append(ask, "--json")
				}
				stdout, stderr, exit := env.Gpexplain(ctx, ask...)
				if ctx.Err() != nil {
					return ctx.Err()
				}
				r.Count(strings.Join(slices.DeleteFunc(slices.Clone(method), func(s string) bool { return s[0] >= '0' && s[0] <= '9' }), " "), 1)
				what := fmt.Sprintf("turn %d: %s of a posterior of %q with the network %s", n, verb, method, m.name)
				if verb == "predict" && m.name == "own" {
					want = stdout
				}
				switch text := wrong(stderr, exit); {
				case text != "":
					r.Find("%s: %s", what, text)
				case m.name == "own" || m.name == "copy":
					if exit != 0 || verb == "predict" && stdout != want {
						r.Find("%s, which is its own, has another answer: %s", what, stderr)
					}
				case exit == 0:
					r.Find("%s answers", what)
				case stdout != "":
					r.Find("%s is refused and leaves %d bytes of an answer", what, len(stdout))
				case !strings.Contains(stderr, m.says):
					r.Find("%s is refused in other words: %s", what, stderr)
				}
			}
		}
	}
	return nil
}
