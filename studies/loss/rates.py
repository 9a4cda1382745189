"""Runs gpexplain over the networks of train.py that have no answer yet, and tabulates what was warned of.

    rates.py GPEXPLAIN FOLDER...      # answers stay in SEED-KIND.summary.json, so that it goes on where it was stopped
"""
import sys, os, json, glob, subprocess
GROUPS={'plain':'cross entropy','weight':'weights','pos':'weights','over':'weights','under':'weights','focal':'focal','smooth':'smoothing'}
def steps(c):
    n=c['n']*(.8 if c['stop']=='early' else 1)
    return c['epochs']*max(1,-(-n//c['batch']))
def near(c): return c['opt']=='lbfgs' or steps(c)*c['lr']>=(.3 if c['opt']=='adam' else 3)
def summary(b):
    if not os.path.exists(b+'.summary.json'):
        out=subprocess.run([sys.argv[1],'predict','--model',b+'.onnx','--data',b+'.csv','--test-data',b+'.test.csv','--standardize','no','--json'],capture_output=True,text=True)
        if out.returncode: return None
        open(b+'.summary.json','w').write(out.stdout.strip().split('\n')[-1])
    return json.load(open(b+'.summary.json'))
table={}
for d in sys.argv[2:]:
    for j in sorted(glob.glob(d+'/*-*.json')):
        b=j[:-5]
        if b.endswith('.summary'): continue
        c=json.load(open(j)); w=c['par'].get('w',[1,2]); s=summary(b)
        if s is None or max(w)<1.5*min(w): continue
        row=table.setdefault((GROUPS[c['kind']],'near its end' if near(c) else 'stopped early'),[0,0,0,0.])
        row[0]+=1; row[1]+=any(x['code'].startswith('loss-') for x in s['fit']['warnings'])
        row[2]+='shift' in s['fit']['calibration']; row[3]+=s['nll']
for (g,n),(k,w,sh,nll) in sorted(table.items()): print(f'{g}, {n}: {k} networks, {w} warned of ({w/k:.1%}), {sh} shifted, mean test NLL {nll/k:.4f}')
