package serve

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/funcgp/funcgp/explain/result"
)

// A decision is a line of the log of answers.
type decision struct {
	result.Record
	Path   string           `json:"path"`
	Input  [][]result.Float `json:"input"` // rows as they were scored: features in the units of the data, pixels from 0 to 1
	Answer any              `json:"answer"`
}

// decisions is the log of answers: a line of JSON for each.
type decisions struct {
	mutex sync.Mutex
	out   io.Writer
	torn  bool // the last line was not written to its end
}

// add logs an answer. If it returns an error, the answer must not be given, since it is not in the log.
func (d *decisions) add(ctx context.Context, path string, s *service, r *request, answer any) error {
	x, err := r.scored.Values(ctx)
	if err != nil {
		return err
	}
	one := &decision{Record: s.record, Path: path, Answer: answer}
	one.Date = time.Now()
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
