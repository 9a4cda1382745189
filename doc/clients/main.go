// Command client asks a running gpexplain serve about one input, with nothing but the
// standard library:
//
//	go run ./doc/clients -url http://127.0.0.1:8080 -row 24
//	go run ./doc/clients -url http://127.0.0.1:8080 -picture digit.png -without 4,30
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// A request has one of row and picture; /openapi.json lists all members.
type request struct {
	Row     *int   `json:"row,omitempty"`
	Picture []byte `json:"picture,omitempty"` // base64 in JSON
	Fit     string `json:"fit,omitempty"`
	Top     int    `json:"top"`
	Without []int  `json:"without,omitempty"`
}

// An explanation has the members that this program prints. Numbers may be null.
type explanation struct {
	Classes    []string
	Prediction struct {
		Probability   []float64
		ProbabilitySD []float64 `json:"probability_sd"`
		Mean          []float64
	}
	Score        struct{ Says string }
	For, Against []struct {
		Index      int
		Label      *float64
		Value      float64
		Similarity *float64
	}
	Without *struct{ Probability []float64 }
}

func main() {
	log.SetFlags(0)
	url := flag.String("url", "http://127.0.0.1:8080", "address of the server")
	row := flag.Int("row", -1, "a test row")
	picture := flag.String("picture", "", "a PNG or JPEG `FILE` of a digit")
	without := flag.String("without", "", "training rows to take out, with commas")
	flag.Parse()
	ask := request{Top: 3}
	switch {
	case *picture != "":
		b, err := os.ReadFile(*picture)
		if err != nil {
			log.Fatal(err)
		}
		ask.Picture, ask.Fit = b, "ink"
	case *row >= 0:
		ask.Row = row
	default:
		log.Fatal("give -row or -picture")
	}
	for text := range strings.SplitSeq(*without, ",") {
		if n, err := strconv.Atoi(text); err == nil {
			ask.Without = append(ask.Without, n)
		}
	}
	x, err := explain(*url, ask)
	if err != nil {
		log.Fatal(err)
	}
	for k, name := range x.Classes {
		fmt.Printf("%s: probability %.3f ± %.3f", name, x.Prediction.Probability[k], x.Prediction.ProbabilitySD[k])
		if x.Without != nil {
			fmt.Printf(", without these examples %.3f", x.Without.Probability[k])
		}
		fmt.Println()
	}
	if x.Classes == nil {
		fmt.Println("mean", x.Prediction.Mean)
	}
	fmt.Println(x.Score.Says)
	for _, t := range x.For {
		fmt.Printf("%+.3f by training row %d\n", t.Value, t.Index)
	}
	for _, t := range x.Against {
		fmt.Printf("%+.3f by training row %d\n", t.Value, t.Index)
	}
}

// explain asks, and asks again where the server has too much to do.
func explain(url string, ask request) (*explanation, error) {
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: time.Minute}
	for {
		r, err := client.Post(url+"/v1/explain", "application/json", bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		defer r.Body.Close()
		if seconds, err := strconv.Atoi(r.Header.Get("Retry-After")); err == nil && r.StatusCode == http.StatusServiceUnavailable {
			time.Sleep(time.Duration(seconds) * time.Second)
			continue
		}
		if r.StatusCode != http.StatusOK {
			var e struct{ Error struct{ Message string } }
			if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
				return nil, fmt.Errorf("%s: %w", r.Status, err)
			}
			return nil, fmt.Errorf("%s: %s", r.Status, e.Error.Message)
		}
		var x explanation
		return &x, json.NewDecoder(r.Body).Decode(&x)
	}
}
