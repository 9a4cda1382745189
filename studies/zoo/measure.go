package zoo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"gonum.org/v1/gonum/mat"

	"github.com/funcgp/funcgp/linearize/network"
)

// expected is what generate.py wrote of a network.
type expected struct {
	What           string      `json:"what"`
	Likelihood     string      `json:"likelihood"`
	PriorPrecision float64     `json:"prior_precision"`
	NoiseVariance  *float64    `json:"noise_variance"`
	Output         string      `json:"output"`
	GradientNorm   float64     `json:"gradient_norm"`
	Learnt         int         `json:"learnt"`
	Opset          int         `json:"opset"`
	TrainRows      int         `json:"train_rows"`
	TestAccuracy   float64     `json:"test_accuracy"`
	TestRMSE       float64     `json:"test_rmse"`
	X              [][]float64 `json:"x"`
	F              [][]float64 `json:"f"`
}

// measure reads one network and runs the command's verbs on it.
func measure(ctx context.Context, command, dir string) (*result, error) {
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		return nil, err
	}
	var e expected
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, err
	}
	r := &result{Name: filepath.Base(dir), What: e.What, Likelihood: e.Likelihood, Precision: e.PriorPrecision, Examples: e.TrainRows,
		Learnt: e.Learnt, Opset: e.Opset, GradientNorm: e.GradientNorm, Accuracy: e.TestAccuracy, RMSE: e.TestRMSE, Load: load()}
	if r.F32, err = r.compare(ctx, filepath.Join(dir, "model.onnx"), &e); err != nil {
		return nil, err
	}
	if r.F64, err = r.compare(ctx, filepath.Join(dir, "model64.onnx"), &e); err != nil {
		return nil, err
	}
	model := []string{"--model", filepath.Join(dir, "model.onnx"), "--quiet"}
	if e.Output != "" {
		model = append(model, "--output", e.Output)
	}
	problem := append([]string{"--data", filepath.Join(dir, "rows.npz"), "--standardize", "no", "--likelihood", e.Likelihood,
		"--prior-precision", fmt.Sprint(e.PriorPrecision)}, model...)
	if e.NoiseVariance != nil {
		problem = append(problem, "--noise-variance", fmt.Sprint(*e.NoiseVariance))
	}
	posterior := filepath.Join(dir, "posterior.gp")
	steps := []struct {
		verb string
		args []string
		read func(out []byte) error
	}{
		{"inspect", model, nil},
		{"fit", append([]string{"-o", posterior}, problem...), nil},
		{"predict", []string{"--posterior", posterior, "--quiet"}, nil},
		{"explain", []string{"--posterior", posterior, "--index", "0", "--quiet"}, nil},
		{"validate", problem, r.readValidation},
	}
	for _, s := range steps {
		c := exec.CommandContext(ctx, command, append([]string{s.verb, "--json"}, s.args...)...)
		var out, said bytes.Buffer
		c.Stdout, c.Stderr = &out, &said
		from := time.Now()
		err := c.Run()
		t := step{Verb: s.verb, Seconds: time.Since(from).Seconds()}
		if use, ok := c.ProcessState.SysUsage().(*syscall.Rusage); ok {
			t.Bytes = use.Maxrss * 1024
			t.CPUSeconds = seconds(use.Utime) + seconds(use.Stime)
		}
		r.Steps = append(r.Steps, t)
		if s.read != nil && out.Len() > 0 {
			err = errors.Join(err, s.read(out.Bytes()))
		}
		if err != nil {
			return nil, fmt.Errorf("gpexplain %s: %w: %s", s.verb, err, strings.TrimSpace(said.String()))
		}
		fmt.Fprintf(os.Stderr, "%s: %s %.1f s, %d MB\n", r.Name, t.Verb, t.Seconds, t.Bytes>>20)
	}
	return r, os.Remove(posterior)
}

func seconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// compare reads a file and returns the largest difference of f from PyTorch's at the test
// rows, relative to the largest output.
func (r *result) compare(ctx context.Context, path string, e *expected) (float64, error) {
	net, err := network.ReadONNXFile(ctx, path, &network.ReadOptions{Output: e.Output})
	if err != nil {
		return 0, err
	}
	d, c, p := net.Dims()
	x := mat.NewDense(len(e.X), d, nil)
	for i, row := range e.X {
		if len(row) != d {
			return 0, fmt.Errorf("%s: %d inputs, the network reads %d", path, len(row), d)
		}
		x.SetRow(i, row)
	}
	f, err := net.Forward(ctx, x)
	if err != nil {
		return 0, err
	}
	worst, scale := 0.0, 0.0
	for i, row := range e.F {
		if len(row) != c {
			return 0, fmt.Errorf("%s: PyTorch has %d outputs, the network %d", path, len(row), c)
		}
		for k, v := range row {
			worst, scale = math.Max(worst, math.Abs(f.At(i, k)-v)), math.Max(scale, math.Abs(v))
		}
	}
	r.Inputs, r.Outputs, r.Parameters, r.Blocks, r.Warnings = d, c, p, nil, nil
	count := map[string]int{}
	for _, q := range net.Describe().Params {
		count[q.Block] += q.Len()
	}
	r.Blocks = count
	for _, w := range net.Warnings() {
		r.Warnings = append(r.Warnings, w.Error())
	}
	return worst / scale, nil
}

// readValidation keeps the largest differences between weight space and function space.
func (r *result) readValidation(out []byte) error {
	var v struct {
		OK   bool `json:"ok"`
		Rows []struct {
			Quantity   string   `json:"quantity"`
			Difference *float64 `json:"difference"`
			Tolerance  *float64 `json:"tolerance"`
			OK         bool     `json:"ok"`
		} `json:"rows"`
	}
	if err := json.Unmarshal(out, &v); err != nil {
		return fmt.Errorf("validate --json: %w", err)
	}
	r.Agrees = v.OK
	for _, q := range v.Rows {
		if q.Difference == nil {
			return fmt.Errorf("validate: %s has no difference", q.Quantity)
		}
		r.Validation = append(r.Validation, compared{q.Quantity, *q.Difference})
		r.Worst = math.Max(r.Worst, *q.Difference)
	}
	return nil
}

// load is the number of processes that the machine was running, by processor, over the last minute.
func load() float64 {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	var v float64
	if _, err := fmt.Sscan(string(data), &v); err != nil {
		return -1
	}
	return v / float64(runtime.NumCPU())
}
