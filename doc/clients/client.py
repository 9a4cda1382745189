"""Asks a running gpexplain serve about one input, with nothing but the standard library:

    python3 client.py http://127.0.0.1:8080 24
    python3 client.py http://127.0.0.1:8080 digit.png 4,30

The second argument is a test row or a picture, the third lists training rows to take out.
"""
import base64
import json
import sys
import time
import urllib.error
import urllib.request


def explain(url, **request):
    """Returns the answer of /v1/explain, and asks again where the server has too much to do."""
    body = json.dumps(request).encode()
    while True:
        try:
            ask = urllib.request.Request(url + "/v1/explain", body, {"Content-Type": "application/json"})
            with urllib.request.urlopen(ask, timeout=60) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as e:
            if e.code == 503:
                time.sleep(int(e.headers.get("Retry-After", 1)))
                continue
            sys.exit(f"{e.code}: {json.load(e)['error']['message']}")


def main():
    url, what = sys.argv[1:3]
    request = {"top": 3}
    if what.isdigit():
        request["row"] = int(what)
    else:
        with open(what, "rb") as f:
            request.update(picture=base64.b64encode(f.read()).decode(), fit="ink")
    if len(sys.argv) > 3:
        request["without"] = [int(row) for row in sys.argv[3].split(",")]
    x = explain(url, **request)
    for k, name in enumerate(x.get("classes", [])):
        line = f"{name}: probability {x['prediction']['probability'][k]:.3f} ± {x['prediction']['probability_sd'][k]:.3f}"
        if "without" in x:
            line += f", without these examples {x['without']['probability'][k]:.3f}"
        print(line)
    if "classes" not in x:
        print("mean", x["prediction"]["mean"])
    print(x["score"]["says"])
    for term in x["for"] + x["against"]:
        print(f"{term['value']:+.3f} by training row {term['index']}")


main()
