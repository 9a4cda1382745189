// Package command asks gpexplain as its users do: it runs the program and reads its JSON.
package command

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/funcgp/funcgp/explain/result"
)

// A Command is the program gpexplain.
type Command struct{ path, version string }

// Root is the folder of the sources of module funcgp, which this module names in its go.mod.
func Root(ctx context.Context) (string, error) {
	list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", "github.com/funcgp/funcgp")
	var said bytes.Buffer
	list.Stderr = &said
	root, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("command: the sources of funcgp: %w: %s", err, said.String())
	}
	return strings.TrimSpace(string(root)), nil
}

// Build builds the program from the sources of module funcgp to the file gpexplain in dir.
func Build(ctx context.Context, dir string) (*Command, error) {
	root, err := Root(ctx)
	if err != nil {
		return nil, err
	}
	path, err := filepath.Abs(filepath.Join(dir, "gpexplain"))
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", root, "-buildvcs=false", "-o", path, "./cmd/gpexplain")
	if text, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("command: %w: %s", err, text)
	}
	return Open(path)
}

// Open returns the program at path.
func Open(path string) (*Command, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return nil, err
	}
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	return &Command{path: path, version: fmt.Sprintf("%x", sum.Sum(nil)[:6])}, nil
}

// Version identifies the program by its bytes: answers are kept under it.
func (c *Command) Version() string { return c.version }

// lines runs the program with the verb, --json and args, and calls each with every line of
// its standard output. The error of a program that fails is the last line that it wrote to
// its standard error.
func (c *Command) lines(ctx context.Context, verb string, args []string, each func(line []byte) error) error {
	p := exec.CommandContext(ctx, c.path, append([]string{verb, "--json"}, args...)...)
	var said bytes.Buffer
	p.Stderr = &said
	out, err := p.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	in := bufio.NewReaderSize(out, 1<<20)
	var failed error
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 && failed == nil {
			failed = each(line)
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				failed = errors.Join(failed, err)
			}
			break
		}
	}
	if err := p.Wait(); err != nil {
		text := strings.TrimSpace(said.String())
		return fmt.Errorf("gpexplain %s %s: %w: %s", verb, strings.Join(args, " "), err, text[strings.LastIndexByte(text, '\n')+1:])
	}
	return failed
}

// An Explanation is one line of gpexplain explain.
type Explanation struct {
	Input   result.Input `json:"input"`
	Outputs []Output     `json:"outputs"` // of the network in order, and then contrasts
	Fit     result.Fit   `json:"fit"`
}

// An Output is the sum over training rows of one output.
type Output struct {
	Contrast      *result.Contrasted `json:"contrast"` // nil of an output of the network
	Network       float64            `json:"network"`  // f(x;θ*)
	Contributions []Term             `json:"contributions"`
}

// A Term is what one training row has to do with an output.
type Term struct {
	Index   int          `json:"index"`   // row of the original file
	Value   result.Float `json:"value"`   // C·b (E14)
	Removal result.Float `json:"removal"` // f without the row less f with it, to first order (E15); NaN where unknown
}

// Explain calls each with the explanation of every row that args ask for, in order.
func (c *Command) Explain(ctx context.Context, args []string, each func(*Explanation) error) error {
	return c.lines(ctx, "explain", args, func(line []byte) error {
		e := new(Explanation)
		if err := json.Unmarshal(line, e); err != nil {
			return fmt.Errorf("gpexplain explain: %w", err)
		}
		return each(e)
	})
}

// A Row is one line of gpexplain predict.
type Row struct {
	Index      int         `json:"index"`
	Label      float64     `json:"label"`
	Mean       []float64   `json:"mean"`       // of f
	Covariance [][]float64 `json:"covariance"` // of f, not scaled by s
	// Of a regression, in the unit of the data.
	ObservationMean []float64 `json:"observation_mean"`
	ObservationSD   []float64 `json:"observation_sd"`
}

// A Summary is the last line of gpexplain predict.
type Summary struct {
	Accuracy result.Float `json:"accuracy"` // NaN of a regression
	NLL      result.Float `json:"nll"`
	MAPNLL   result.Float `json:"map_nll"` // the network's own
	ECE      result.Float `json:"ece"`     // NaN of a regression
	Fit      result.Fit   `json:"fit"`
}

// Predict returns the rows that args ask for and their summary.
func (c *Command) Predict(ctx context.Context, args []string) ([]Row, *Summary, error) {
	var rows []Row
	var sum *Summary
	err := c.lines(ctx, "predict", args, func(line []byte) error {
		var kind struct {
			Schema string `json:"schema"`
		}
		if err := json.Unmarshal(line, &kind); err != nil {
			return fmt.Errorf("gpexplain predict: %w", err)
		}
		if strings.HasPrefix(kind.Schema, "funcgp/predict-summary/") {
			sum = new(Summary)
			return json.Unmarshal(line, sum)
		}
		var r Row
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("gpexplain predict: %w", err)
		}
		rows = append(rows, r)
		return nil
	})
	if err == nil && sum == nil {
		err = fmt.Errorf("gpexplain predict %s: no summary", strings.Join(args, " "))
	}
	return rows, sum, err
}
