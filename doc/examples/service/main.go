// Command service answers by a posterior that gpexplain fit wrote, over HTTP below /loans/ to whoever has the token, and
// reads it again on SIGHUP.
package main

import (
	"context"
	"crypto/subtle"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/funcgp/funcgp"
	"github.com/funcgp/funcgp/explain/serve"
)

// load lets s answer by the posterior of a file, and closes the old one once its requests have ended. After an error s
// answers by the old one.
func load(ctx context.Context, s *serve.Server, path string, old *funcgp.Posterior) (*funcgp.Posterior, error) {
	p, err := funcgp.Open(ctx, path, nil)
	if err != nil {
		return old, err
	}
	if err := s.Ready(ctx, p); err != nil {
		return old, errors.Join(err, p.Close())
	}
	if old != nil {
		return p, old.Close()
	}
	return p, nil
}

// asked lets through who has the token.
func asked(token string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), []byte("Bearer "+token)) == 0 {
			http.Error(w, "give the token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func main() {
	path, addr := flag.String("file", "", "posterior"), flag.String("addr", "127.0.0.1:8080", "where to listen")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	s := serve.NewServer(&serve.Options{Hosts: []string{"*"}}) // the token keeps others out
	p, err := load(ctx, s, *path, nil)
	check(err)
	mux := http.NewServeMux()
	mux.Handle("/loans/", asked(os.Getenv("TOKEN"), http.StripPrefix("/loans", s)))
	l, err := net.Listen("tcp", *addr)
	check(err)
	ended, again := make(chan error, 1), make(chan os.Signal, 1)
	signal.Notify(again, syscall.SIGHUP)
	go func() { ended <- serve.Serve(ctx, &http.Server{Handler: mux}, l) }()
	for {
		select {
		case <-again:
			if p, err = load(ctx, s, *path, p); err != nil {
				log.Print(err)
			}
		case err := <-ended: // requests under way have been answered
			check(errors.Join(err, p.Close()))
			return
		}
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
