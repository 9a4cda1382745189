package serve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/funcgp/funcgp/explain/result"
	"github.com/funcgp/funcgp/internal/problem"
)

// A decision is a line of the log of answers.
type decision struct {
	Time time.Time `json:"time"`
	Path string    `json:"path"`
	sums
	Input  [][]result.Float `json:"input"` // rows as they were scored: features in the units of the data, pixels from 0 to 1
	Answer any              `json:"answer"`
}

// sums are the SHA-256 of what answers come from.
type sums struct {
	Model     string              `json:"model_sha256"`
	Data      []problem.FileCheck `json:"data_sha256"`      // of each file of the data
	Posterior string              `json:"posterior_sha256"` // of its file; "" of one that was not read from a file
}

// sumsOf reads the files of a problem.
func sumsOf(ctx context.Context, p *problem.Problem) (s sums, err error) {
	if s.Model, s.Data, err = p.Sums(ctx); err == nil && p.Saved != nil {
		s.Posterior = p.Saved.File.SHA256()
	}
	return s, err
}

// decisions is the log of answers: a line of JSON for each.
type decisions struct {
	mutex sync.Mutex
	out   io.Writer
	torn  bool // the last line was not written to its end
}

// add adds an answer. The error is a refusal, since an answer that is not in the log must not be given.
func (d *decisions) add(ctx context.Context, path string, s *service, r *request, answer any) error {
	x, err := r.scored.Set.Read(ctx, r.scored.Pos)
	if err != nil {
		return err
	}
	one := &decision{Time: time.Now().UTC(), Path: path, sums: s.sums, Answer: answer}
	for i := range r.scored.Len() {
		one.Input = append(one.Input, result.Floats(x.RawRowView(i)))
	}
	line, err := json.Marshal(one)
	if err != nil {
		return err
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	if d.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := d.out.Write(append(line, '\n'))
	d.torn = err != nil && (n > 0 || d.torn)
	if err != nil {
		return refusef(http.StatusInternalServerError, "unlogged", "the answer could not be written to the log of answers, and is not given: %w", err)
	}
	return nil
}
