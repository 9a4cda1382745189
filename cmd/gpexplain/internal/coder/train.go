package coder

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/cmd/gpexplain/internal/flags"
	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/glm/autoencoder"
	"github.com/funcgp/funcgp/internal/atomicfile"
	"github.com/funcgp/funcgp/internal/console"
	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/linearize/network"
	"github.com/funcgp/funcgp/linearize/train"
)

// archPrefix begins the names of autoencoders for --arch.
const archPrefix = "autoencoder:"

// IsArch tells whether --arch names an autoencoder.
func IsArch(name string) bool { return strings.HasPrefix(name, archPrefix) }

// TrainFlags say how train trains an autoencoder.
type TrainFlags struct {
	online     bool
	rule       string
	memory     float64
	curvature  string
	checkpoint string
	widths     []int
	name       string
	given      func(flag string) bool
}

// Add defines the flags.
func (t *TrainFlags) Add(c *cobra.Command) {
	f := c.Flags()
	f.BoolVar(&t.online, "online", false, "train an autoencoder under its posterior: each step draws the parameters, and the precision follows, which begins with --prior-precision. The text of [lae] sets --batch 64, --lr 1e-3, --online-memory 0.9999, --early-stopping 8 and this beginning, which are taken here; its released code has 50, 1e-3, 0.999, 5 and a precision that begins with the number of rows. Such a large --prior-precision reconstructs better after few steps, but its draws do not tell foreign rows. The step size is halved after each half of --early-stopping without a smaller error. At most 100 epochs")
	f.StringVar(&t.rule, "online-rule", "released", "`NAME` of how the precision follows: released, as in the code of [lae], where it grows to ½/(1−M) times the curvature of all rows; or published, as in its text, to B/((1−M)·N) times that, with minibatches of B of N rows")
	f.Float64Var(&t.memory, "online-memory", 0.9999, "share `M` of the precision that a step keeps")
	f.StringVar(&t.curvature, "curvature", "approximate", "`NAME` of how --online carries the GGN back: approximate, exact or mixed")
	f.StringVar(&t.checkpoint, "checkpoint", "", "keep the state of --online in `FILE` after each epoch and where it is interrupted, and go on from it")
}

// otherFlags mean nothing with --online.
var otherFlags = []string{"optimizer", "momentum", "steps", "schedule", "schedule-epochs", "schedule-factor", "no-decay", "lbfgs", "init", "dropout"}

// Check refuses flags that are wrong, for the architecture of --arch.
func (t *TrainFlags) Check(c *cobra.Command, arch string) error {
	if t.online && !IsArch(arch) {
		return job.Usagef("--online is for --arch %sWIDTHS", archPrefix)
	}
	if !IsArch(arch) {
		return nil
	}
	for _, name := range otherFlags {
		if c.Flags().Changed(name) && (t.online || name == "dropout" || name == "init") {
			return job.Usagef("--%s is not for --arch %s%s", name, arch, map[bool]string{true: " with --online"}[t.online])
		}
	}
	t.name, t.given = arch, c.Flags().Changed
	for field := range strings.SplitSeq(strings.TrimPrefix(arch, archPrefix), "-") {
		k, err := strconv.Atoi(field)
		if err != nil || k < 0 || k > 1<<20 {
			return job.Usagef("--arch %q: widths of the encoder, the code last, are numbers such as %s512-256-2", arch, archPrefix)
		}
		t.widths = append(t.widths, k)
	}
	if _, err := autoencoder.Layers(1, t.widths, network.Tanh); err != nil {
		return job.Usagef("--arch %q: %s", arch, strings.TrimPrefix(err.Error(), "autoencoder: "))
	}
	return flags.Check(c.Flags(), []flags.Rule{
		flags.OneOf("curvature", autoencoder.CurvatureNames()...),
		flags.OneOf("online-rule", autoencoder.RuleNames()...),
		flags.Between(0, 1, false, "online-memory"),
	})
}

// A TrainReport is what train prints of an autoencoder with --json.
type TrainReport struct {
	Schema     string        `json:"schema"`
	Out        string        `json:"out"`
	Posterior  string        `json:"posterior,omitempty"` // of --online
	Parameters int           `json:"parameters"`
	Code       string        `json:"code"`
	Latent     int           `json:"latent"`
	Examples   int           `json:"examples"`
	Epochs     int           `json:"epochs"`
	BestEpoch  int           `json:"best_epoch,omitempty"`
	TrainMSE   result.Float  `json:"train_mse"` // mean over pixels, of the last epoch or of all rows
	ValidMSE   *result.Float `json:"validation_mse,omitempty"`
	TestMSE    result.Float  `json:"test_mse"` // by the mean parameters
	Warnings   job.Warnings  `json:"warnings"`
	Seconds    result.Float  `json:"seconds"`
}

// Train trains an autoencoder and writes it to out, with its posterior beside it if it was trained online. It stops after so
// many epochs without a smaller error of held-out rows, 0 for none.
func Train(ctx context.Context, c *console.Console, data funcgp.Data, o *funcgp.FitOptions, t *TrainFlags, activation network.Activation, patience int, d *train.Options, out string) (*TrainReport, error) {
	if err := console.Writable(out + posteriorSuffix); err != nil {
		return nil, err
	}
	set, err := funcgp.OpenToTrain(ctx, data, o, &funcgp.Trainee{Name: "the " + t.name + " network", Autoencoder: true, Plan: func(shape []int, _ int) error { return t.plan(shape, o.Budget()) }})
	if err != nil {
		return nil, err
	}
	info := set.Info()
	layers, err := autoencoder.Layers(info.Outputs, t.widths, activation)
	if err != nil {
		return nil, err
	}
	net, err := network.Seeded(o.Seed, info.InputShape, layers...)
	if err != nil {
		return nil, err
	}
	a, err := autoencoder.New(net, "")
	if err != nil {
		return nil, err
	}
	x, loss, err := checked(ctx, a, set, set.TrainingRows())
	if err != nil {
		return nil, err
	}
	var held *mat.Dense // the rows that say when the training stops
	if patience != 0 {
		rows, err := set.HeldOut()
		if err != nil {
			return nil, err
		}
		if held, _, err = checked(ctx, a, set, rows); err != nil {
			return nil, err
		}
	}
	_, _, params := net.Dims()
	code, latent := a.Code()
	r := &TrainReport{Schema: "funcgp/train-autoencoder/1", Out: out, Parameters: params, Code: code, Latent: latent, Examples: info.Examples, TestMSE: result.Undefined()}
	if t.online {
		if a, err = t.trainOnline(ctx, c, set, patience, d, a, x, held, r); err != nil {
			return nil, err
		}
	} else if a, err = plain(ctx, c, set, patience, *d, a, x, loss, held, r); err != nil {
		return nil, err
	}
	if test := set.TestRows(); test != nil {
		x, _, _, err := set.Examples(ctx, test)
		if err != nil {
			return nil, err
		}
		if r.TestMSE, err = mse(ctx, a, x); err != nil {
			return nil, err
		}
	}
	own := a.Network().WithMetadata(set.Metadata(code))
	if err := atomicfile.Write(out, own.WriteONNX); err != nil {
		return nil, err
	}
	r.Seconds, r.Warnings = c.Timings().Total, c.Warnings
	return r, nil
}

// plan refuses widths that take more bytes of memory than may be used, for inputs of a shape.
func (t *TrainFlags) plan(shape []int, budget int64) error {
	in := 1.0
	for _, n := range shape {
		in *= float64(n)
	}
	// About the memory of a training, with the rows of parameters that it keeps
	const vectors = 24
	params := 0.0
	for _, w := range t.widths {
		params += 2 * (in + 1) * float64(w)
		in = float64(w)
	}
	if need := 8 * vectors * params; need > float64(budget) {
		return fmt.Errorf("--arch %s takes about %.0f bytes of memory to train, of which %d may be used; choose smaller widths, or raise --max-memory", t.name, need, budget)
	}
	return nil
}

// Print writes the report as JSON or text.
func (r *TrainReport) Print(c *console.Console) error {
	if c.JSON {
		return encoder(c.Out).Encode(r)
	}
	fmt.Fprintf(c.Out, "%d parameters, a code of %d, trained on %d examples in %.1f s, %d epochs\n", r.Parameters, r.Latent, r.Examples, float64(r.Seconds), r.Epochs)
	fmt.Fprintf(c.Out, "mean squared error of a pixel: training %.5f", float64(r.TrainMSE))
	if r.ValidMSE != nil {
		fmt.Fprintf(c.Out, ", validation %.5f (epoch %d, which was kept)", float64(*r.ValidMSE), r.BestEpoch)
	}
	if r.TestMSE.Finite() {
		fmt.Fprintf(c.Out, ", test %.5f", float64(r.TestMSE))
	}
	fmt.Fprintln(c.Out)
	for _, w := range r.Warnings {
		fmt.Fprintf(c.Out, "warning: %s\n", job.OneLine(w.Error()))
	}
	_, err := fmt.Fprintf(c.Out, "wrote %s\n", strings.Join(slices.DeleteFunc([]string{r.Out, r.Posterior}, func(s string) bool { return s == "" }), " and "))
	return err
}

// mse is the mean squared error of a pixel by the network itself.
func mse(ctx context.Context, a *autoencoder.Autoencoder, x *mat.Dense) (result.Float, error) {
	f, err := a.Network().Forward(ctx, x)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for _, e := range autoencoder.SquaredErrors(x, f) {
		sum += e
	}
	n, pixels := x.Dims()
	return result.Float(sum / float64(n*pixels)), nil
}

// plain trains the network alone; its posterior is fitted when it is used.
func plain(ctx context.Context, c *console.Console, set *funcgp.TrainingSet, patience int, o train.Options, a *autoencoder.Autoencoder, x *mat.Dense, loss network.Loss, held *mat.Dense, r *TrainReport) (*autoencoder.Autoencoder, error) {
	_, _, params := a.Network().Dims()
	o.Precision = slices.Repeat([]float64{float64(set.Info().PriorPrecision)}, params)
	o.Progress = func(stage string, done, total int) { c.Show(stage, done, total) }
	if held != nil {
		o.Validation = &train.Validation{X: held, Y: held, Patience: patience}
	}
	net, res, err := train.MAP(ctx, a.Network(), x, x, loss, &o)
	c.Clear()
	if err != nil {
		_, data := set.Names()
		return nil, fmt.Errorf("training on %s: %w; try a smaller --lr", data, err)
	}
	c.Warn(res.Warnings...)
	r.Epochs, r.BestEpoch = res.Epochs, res.BestEpoch
	trained, err := a.WithTheta(net.Theta())
	if err != nil {
		return nil, err
	}
	if r.TrainMSE, err = mse(ctx, trained, x); err != nil {
		return nil, err
	}
	if held != nil {
		v, err := mse(ctx, trained, held)
		if err != nil {
			return nil, err
		}
		r.ValidMSE = &v
	}
	return trained, nil
}

// trainOnline trains under the posterior, which it writes beside the model.
func (t *TrainFlags) trainOnline(ctx context.Context, c *console.Console, set *funcgp.TrainingSet, patience int, d *train.Options, a *autoencoder.Autoencoder, x, held *mat.Dense, r *TrainReport) (*autoencoder.Autoencoder, error) {
	curvature, err := autoencoder.ParseCurvature(t.curvature)
	if err != nil {
		return nil, err
	}
	rule, err := autoencoder.ParseRule(t.rule)
	if err != nil {
		return nil, err
	}
	info := set.Info()
	o := &autoencoder.TrainOptions{Rule: rule, Memory: t.memory, Curvature: curvature, Prior: float64(info.PriorPrecision), Noise: float64(info.NoiseVariance), Patience: patience, Validation: held, Seed: d.Seed,
		Progress: func(done, total int) { c.Show("online", done, total) },
		Epoch: func(e autoencoder.Epoch) {
			c.Detail("epoch: mean squared error of a pixel %.6g, validation %.6g", e.Train, e.Validation)
		}}
	if t.given("epochs") {
		o.Epochs = max(0, d.Epochs)
	}
	if t.given("batch") {
		o.Batch = d.Batch
	}
	if t.given("lr") {
		o.LearningRate = d.LearningRate
	}
	if t.checkpoint != "" {
		o.Checkpoint = func(s *autoencoder.State) error { return s.Write(t.checkpoint) }
		// There may be none yet.
		if info, err := os.Stat(t.checkpoint); !errors.Is(err, fs.ErrNotExist) && (err != nil || info.Size() > 0) {
			if o.Resume, err = autoencoder.ReadState(t.checkpoint); err != nil {
				return nil, err
			}
			c.Note("%s: going on from step %d", t.checkpoint, o.Resume.Step)
		}
	}
	post, res, err := autoencoder.Train(ctx, a, x, o)
	c.Clear()
	if e := (*autoencoder.ResumeError)(nil); errors.As(err, &e) {
		return nil, fmt.Errorf("--checkpoint %s: %w", t.checkpoint, err)
	}
	if err != nil {
		_, data := set.Names()
		return nil, fmt.Errorf("training on %s: %w", data, err)
	}
	r.Epochs, r.BestEpoch = len(res.Epochs), res.Best
	best := res.Epochs[res.Best-1]
	r.TrainMSE = result.Float(best.Train)
	if held != nil {
		v := result.Float(best.Validation)
		r.ValidMSE = &v
	}
	r.Posterior = r.Out + posteriorSuffix
	trained := post.Autoencoder()
	return trained, post.Save(r.Posterior, fmt.Sprintf("online on %d rows, the %s rule, %s diagonal of the GGN", info.Examples, o.Rule, curvature))
}
