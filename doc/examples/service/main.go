// Command service answers by a posterior that gpexplain fit wrote, over HTTP, and reads it again on SIGHUP.
package main

import (
	"context"
	"encoding/json"
	"expvar"
	"flag"
	"log"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/funcgp/funcgp"
)

var counts = expvar.NewMap("service") // at /debug/vars

type service struct {
	use sync.RWMutex // held for reading while a request uses now, for writing while it is replaced
	now *funcgp.Posterior
}

// load takes the posterior of a file. After an error the old one stays; else it is closed once requests under way end.
func (s *service) load(ctx context.Context, path string) error {
	p, err := funcgp.Open(ctx, path, nil)
	if err != nil {
		return err
	}
	s.use.Lock()
	old := s.now
	s.now = p
	s.use.Unlock()
	counts.Add("loads", 1)
	if old == nil {
		return nil
	}
	return old.Close()
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	began, status, records, out := time.Now(), http.StatusUnprocessableEntity, []map[string]float64{}, any(nil)
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&records) // objects of numbers by column
	// The body is there, so that no slow client keeps others waiting.
	s.use.RLock()
	defer s.use.RUnlock()
	var rows *funcgp.Rows
	if err == nil {
		rows, err = s.now.Records(r.Context(), records)
	}
	if err == nil {
		status = http.StatusOK
		if out, err = s.answer(r.Context(), rows, r.URL.Path == "/explain"); err != nil {
			status = http.StatusInternalServerError
		}
	}
	if err != nil {
		counts.Add("errors", 1)
		out = map[string]string{"error": err.Error()}
	}
	counts.Add("requests", 1)
	counts.AddFloat("seconds", time.Since(began).Seconds())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(out) // whoever asked may be gone
}

// answer explains or predicts each row.
func (s *service) answer(ctx context.Context, rows *funcgp.Rows, explain bool) (any, error) {
	if explain {
		return s.now.Explain(ctx, rows, nil)
	}
	return s.now.Predict(ctx, rows)
}

func main() {
	path, addr := flag.String("file", "", "posterior"), flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s, ended, again := &service{}, make(chan error, 1), make(chan os.Signal, 1)
	check(s.load(ctx, *path))
	http.Handle("POST /predict", s)
	http.Handle("POST /explain", s)
	server := &http.Server{Addr: *addr, ReadTimeout: 10 * time.Second}
	signal.Notify(again, syscall.SIGHUP)
	go func() { ended <- server.ListenAndServe() }()
	for ctx.Err() == nil {
		select {
		case err := <-ended:
			check(err)
		case <-again:
			if err := s.load(ctx, *path); err != nil {
				log.Print(err)
			}
		case <-ctx.Done():
		}
	}
	last, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	check(server.Shutdown(last)) // waits for requests under way
	check(s.now.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
