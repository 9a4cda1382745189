package portable

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

//go:embed page.html
var pageHTML string

// A Page is an HTML page that runs a model in the browser on what the user draws, without a server.
type Page struct {
	Title         string
	Classes       []string
	Width, Height int       // of the pictures, which have one channel
	Model         []byte    // the ONNX graph
	Runtime       *Runtime  // runs the graph
	Rows          []PageRow // training rows that terms may name
}

// A PageRow is a training row as the page shows it.
type PageRow struct {
	Row     int64  `json:"row"`
	Label   string `json:"label"`
	Picture []byte `json:"picture"` // grey levels
}

// A Runtime has the files of npm's onnxruntime-web.
type Runtime struct{ Module, Glue, Wasm []byte }

// license is the license of onnxruntime-web, whose npm package contains no license file.
const license = `onnxruntime-web. Copyright (c) Microsoft Corporation. MIT License.

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation
files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy,
modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the
Software is furnished to do so, subject to the following conditions: The above copyright notice and this permission notice
shall be included in all copies or substantial portions of the Software. THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY
OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR
PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER
LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR
THE USE OR OTHER DEALINGS IN THE SOFTWARE.`

// ReadRuntime reads the runtime from the folder of npm's package onnxruntime-web. The error names a missing file.
func ReadRuntime(dir string) (*Runtime, error) {
	r := new(Runtime)
	for _, f := range []struct {
		to   *[]byte
		name string
	}{{&r.Module, "ort.wasm.min.mjs"}, {&r.Glue, "ort-wasm-simd-threaded.mjs"}, {&r.Wasm, "ort-wasm-simd-threaded.wasm"}} {
		path := filepath.Join(dir, "dist", f.name)
		data, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: there is no such file; name the folder of npm's package onnxruntime-web", path)
		}
		if err != nil {
			return nil, err
		}
		*f.to = data
	}
	return r, nil
}

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	packed := map[string][]byte{}
	for name, data := range map[string][]byte{"model": p.Model, "module": p.Runtime.Module, "glue": p.Runtime.Glue, "wasm": p.Runtime.Wasm} {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(data); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
		packed[name] = b.Bytes()
	}
	data, err := json.Marshal(struct {
		Classes []string          `json:"classes"`
		Width   int               `json:"width"`
		Height  int               `json:"height"`
		Rows    []PageRow         `json:"rows"`
		Packed  map[string][]byte `json:"packed"`
	}{p.Classes, p.Width, p.Height, p.Rows, packed})
	if err != nil {
		return err
	}
	// json.Marshal escapes <, so the data cannot end the script element.
	fill := strings.NewReplacer("{{title}}", html.EscapeString(p.Title), "{{license}}", "<!--\n"+license+"\n-->", "{{data}}", string(data))
	_, err = fill.WriteString(w, pageHTML)
	return err
}
