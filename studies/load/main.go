// Package load asks a running gpexplain serve for explanations of drawn digits, from a
// number of clients at a time, and prints how long the answers took:
//
//	gpexplain serve --data mnist --classes 4,9 --train-count 3000 …
//	go run ./gpstudies load -clients 50 -for 1m
//
// The drawings are test digits enlarged tenfold and moved at random, as the canvas of the
// page sends them.
package load

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/image/draw"
)

// Run asks and prints.
func Run(_ context.Context, out io.Writer, args []string) error {
	f := flag.NewFlagSet("load", flag.ContinueOnError)
	f.SetOutput(out)
	url := f.String("url", "http://127.0.0.1:8080", "address of the server")
	clients := f.Int("clients", 50, "clients at a time")
	span := f.Duration("for", time.Minute, "how long to ask")
	path := f.String("path", "/v1/explain", "what to ask for")
	think := f.Duration("think", 0, "how long a client waits before it asks again")
	if err := f.Parse(args); err != nil {
		return err
	}
	bodies, err := drawings(*url, 64)
	if err != nil {
		return err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: *clients}, Timeout: time.Minute}
	var mutex sync.Mutex
	var times []time.Duration
	status := map[string]int{}
	began := time.Now()
	end := began.Add(*span)
	var all sync.WaitGroup
	for k := range *clients {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(k), 0))
			for time.Now().Before(end) {
				start := time.Now()
				what := ask(client, *url+*path, bodies[rng.IntN(len(bodies))])
				took := time.Since(start)
				mutex.Lock()
				status[what]++
				times = append(times, took)
				mutex.Unlock()
				time.Sleep(*think)
			}
		})
	}
	all.Wait()
	slices.Sort(times)
	at := func(q float64) time.Duration {
		return times[min(len(times)-1, int(q*float64(len(times))))].Round(100 * time.Microsecond)
	}
	_, err = fmt.Fprintf(out, "%d clients, %v: %d answers, %.1f a second; status %v; median %v, 95 %% %v, 99 %% %v, longest %v\n",
		*clients, time.Since(began).Round(time.Second), len(times), float64(len(times))/time.Since(began).Seconds(), status, at(.5), at(.95), at(.99), at(1))
	return err
}

// ask posts a body and returns the status of the answer.
func ask(client *http.Client, url string, body []byte) string {
	r, err := client.Post(url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err.Error()
	}
	defer r.Body.Close()
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return err.Error()
	}
	return r.Status
}

// drawings are requests about enlarged test digits.
func drawings(url string, n int) ([][]byte, error) {
	var rows struct{ Rows []struct{ Index int } }
	if err := get(fmt.Sprintf("%s/v1/rows?count=%d", url, n), func(r io.Reader) error { return json.NewDecoder(r).Decode(&rows) }); err != nil {
		return nil, err
	}
	var list [][]byte
	rng := rand.New(rand.NewPCG(1, 0))
	for _, row := range rows.Rows {
		var digit image.Image
		err := get(fmt.Sprintf("%s/v1/test/%d/picture", url, row.Index), func(r io.Reader) (err error) {
			digit, err = png.Decode(r)
			return err
		})
		if err != nil {
			return nil, err
		}
		canvas := image.NewGray(image.Rect(0, 0, 280, 280))
		draw.Draw(canvas, canvas.Rect, image.NewUniform(color.Black), image.Point{}, draw.Src)
		draw.BiLinear.Scale(canvas, canvas.Rect.Add(image.Pt(rng.IntN(41)-20, rng.IntN(41)-20)), digit, digit.Bounds(), draw.Src, nil)
		var file bytes.Buffer
		if err := png.Encode(&file, canvas); err != nil {
			return nil, err
		}
		body, err := json.Marshal(map[string]any{"picture": file.Bytes(), "fit": "ink"})
		if err != nil {
			return nil, err
		}
		list = append(list, body)
	}
	return list, nil
}

func get(url string, read func(io.Reader) error) error {
	r, err := http.Get(url)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, r.Status)
	}
	return read(r.Body)
}
