package serve

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/funcgp/funcgp/internal/job"
	"github.com/funcgp/funcgp/internal/option"
)

// A refusal is why a request is not answered.
type refusal struct {
	Status  int    `json:"status"`          // of HTTP
	Code    string `json:"code"`            // in a word, for programs
	Message string `json:"message"`         // in one line, for people
	Field   string `json:"field,omitempty"` // the member of the request that is at fault; "" where it is none

	wait int // seconds after which to try again; 0 for none
	err  error
}

func (r *refusal) Error() string { return r.Message }

// Unwrap returns the cause.
func (r *refusal) Unwrap() error { return r.err }

func refusef(status int, code, format string, args ...any) *refusal {
	return refuse(status, code, option.Errorf(format, args...))
}

// refuse makes a refusal of an error, in the words of who sent the request, in one line without the names of packages.
// Its field is the first member of a request that the error names.
func refuse(status int, code string, err error) *refusal {
	message := job.Message(option.Word(err, option.Members))
	return &refusal{Status: status, Code: code, Message: message, Field: option.Member(err), err: err}
}

// write answers with an object, a file or a refusal.
func (s *Server) write(w http.ResponseWriter, object any, err error) {
	if err != nil {
		// Say why the request ended with an error.
		r := (*refusal)(nil)
		if !errors.As(err, &r) && interrupted(err) {
			r = refusef(http.StatusServiceUnavailable, "too_slow", "the answer took longer than %v; try again, or ask for less", computeTime)
			r.wait = 5
		} else if r == nil {
			r = refuse(unprocessable, "not_computable", err)
		}
		s.refuse(w, r)
		return
	}
	switch file := object.(type) {
	case pngFile:
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Cache-Control", "private, max-age=3600")
		_, _ = w.Write(file) // whoever asked may be gone
	case htmlFile:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = io.WriteString(w, string(file))
	case npyFile:
		w.Header().Set("Content-Type", npyType)
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(file)
	default:
		writeJSON(w, 200, object)
	}
}

// writeJSON answers with one object.
func writeJSON(w http.ResponseWriter, status int, object any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// Whoever asked may be gone, and then nobody is left to tell.
	_ = json.NewEncoder(w).Encode(object)
}

// refuse answers with a refusal.
func (s *Server) refuse(w http.ResponseWriter, r *refusal) {
	if s.options.Python {
		said := *r
		said.Message = job.Message(option.Word(r.err, option.Python))
		said.Field = cmp.Or(r.Field, option.First(r.err, option.Python))
		r = &said
	}
	if r.wait > 0 {
		w.Header().Set("Retry-After", fmt.Sprint(r.wait))
	}
	writeJSON(w, r.Status, struct {
		Error *refusal `json:"error"`
	}{r})
}

// unprocessable is the status of a request that can be read but not answered: a wrong row, member or value.
const unprocessable = http.StatusUnprocessableEntity
