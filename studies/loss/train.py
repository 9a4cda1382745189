"""Trains small classifiers by the cross entropy and by losses that are not the likelihood of their rows.

    train.py OUT FROM TO KINDS      # KINDS: plain,weight,pos,over,under,focal,smooth; FUNCGP_UCI and FUNCGP_DEFAULTS are folders of tables

writes OUT/SEED-KIND.onnx, .csv (the training rows as given, standardized), .test.csv (other rows) and .json (how it was trained).
With TYPICAL=1 in the environment trainings are those of an ordinary user: two hidden layers, Adam, 60 to 150 epochs.
"""
import sys, os, json, csv
os.environ.setdefault('OMP_NUM_THREADS','1')
import numpy as np, torch, torch.nn as nn, torch.nn.functional as Fn
torch.set_num_threads(1)
UCI=os.environ['FUNCGP_UCI']+'/'; DEF=os.environ['FUNCGP_DEFAULTS']+'/'
def table(path, split=None):
    rows=list(csv.reader(open(path)))
    head=rows[0]; rows=rows[1:]
    return head, rows
def load(name, rng):
    if name.startswith('syn'):
        k=int(name[3]); n=int(rng.integers(250,900))*4; d=int(rng.integers(2,9))
        share=rng.dirichlet(np.full(k,rng.choice([3.,30.])))
        share=np.maximum(share,.07); share/=share.sum()
        y=rng.choice(k,n,p=share); sep=rng.uniform(.7,2.)
        mu=rng.normal(size=(k,d))*sep/np.sqrt(2)
        x=mu[y]+rng.normal(size=(n,d))
        if rng.random()<.5: x=np.c_[x[:,:-1],x[:,-1]+.5*np.sin(2*x[:,0])]
        return x,y
    if name.startswith('def:'):
        h,r=table(DEF+name[4:]+'.train.csv')
    else:
        h,r=table(UCI+name+'.csv')
        if len(r)>900:
            r=[r[i] for i in rng.permutation(len(r))[:900]]
    lab=sorted({q[-1] for q in r}); y=np.array([lab.index(q[-1]) for q in r]); x=np.array([[float(v) for v in q[:-1]] for q in r])
    return x,y
NAMES=['syn2']*5+['syn3']*3+['syn4','syn5','syn6','syn3']+['australian','banana','breast_cancer','glass','ionosphere','satellite','digits','def:pima_bn','def:pima_bn','def:sonar0','def:vehicle0','def:vehicle0']
def imbalance(x,y,rng):
    k=y.max()+1; c=int(rng.integers(k)); keep=(y!=c)|(rng.random(len(y))<rng.uniform(.15,.5))
    return x[keep],y[keep]
class Net(nn.Module):
    def __init__(s,d,k,width,depth,act,bn,drop,lnorm):
        super().__init__(); L=[]; i=d
        for _ in range(depth):
            L.append(nn.Linear(i,width)); i=width
            if bn: L.append(nn.BatchNorm1d(width))
            if lnorm: L.append(nn.LayerNorm(width))
            L.append({'relu':nn.ReLU,'tanh':nn.Tanh,'elu':nn.ELU}[act]())
            if drop: L.append(nn.Dropout(drop))
        s.body=nn.Sequential(*L); s.last=nn.Linear(i,k)
    def forward(s,x): return s.last(s.body(x))
def logits2(f): return torch.cat([torch.zeros_like(f),f],1) if f.shape[1]==1 else f
def loss(kind,f,y,par,k):
    one=f.shape[1]==1
    if kind=='weight':
        w=torch.as_tensor(par['w'],dtype=f.dtype)
        if one:
            if par.get('pos'): return Fn.binary_cross_entropy_with_logits(f[:,0],y.to(f.dtype),pos_weight=w[1]/w[0])
            return Fn.binary_cross_entropy_with_logits(f[:,0],y.to(f.dtype),weight=w[y])
        return Fn.cross_entropy(f,y,weight=w)
    if kind=='focal':
        lp=Fn.log_softmax(logits2(f),1).gather(1,y[:,None])[:,0]
        l=-(1-lp.exp())**par['gamma']*lp
        if 'alpha' in par: l=l*torch.as_tensor(par['alpha'],dtype=f.dtype)[y]
        return l.mean()
    if kind=='smooth':
        e=par['eps']
        if one:
            t=y.to(f.dtype)*(1-e)+e/2
            return Fn.binary_cross_entropy_with_logits(f[:,0],t)
        return Fn.cross_entropy(f,y,label_smoothing=e)
    if one: return Fn.binary_cross_entropy_with_logits(f[:,0],y.to(f.dtype))
    return Fn.cross_entropy(f,y)
def train(seed,kind,out):
    rng=np.random.default_rng(seed); torch.manual_seed(seed)
    name=NAMES[int(rng.integers(len(NAMES)))]
    x,y=load(name,rng)
    if rng.random()<.7:
        if name!='glass': x,y=imbalance(x,y,rng)
    lab,y=np.unique(y,return_inverse=True); k=len(lab)
    p=rng.permutation(len(y)); n=len(y)//4 if name.startswith('syn') else len(y)*3//4
    tr,te=p[:n],p[n:]; sd=x[tr].std(0)
    x=np.round((x-x[tr].mean(0))/np.where(sd>0,sd,1),6)
    xt,yt=x[te],y[te]; x,y=x[tr],y[tr]
    if len(np.unique(y))<k: raise ValueError('a class without training rows')
    cfg=dict(seed=seed,kind=kind,data=name,n=len(y),k=k,width=int(rng.choice([8,16,32,50])),depth=int(rng.choice([1,2])),act=str(rng.choice(['relu','relu','tanh','elu'])),
      norm=str(rng.choice(['no','no','no','bn','ln'],p=[.3,.2,.2,.2,.1])),drop=float(rng.choice([0,0,0,.1,.2,.5])),decay=float(rng.choice([0,0,1e-5,1e-4,1e-3,3e-3,1e-2])),adamw=bool(rng.random()<.25),
      opt=str(rng.choice(['adam','adam','adam','sgd','lbfgs'])),lr=float(rng.choice([1e-3,3e-3,1e-2])),batch=int(rng.choice([32,64,128,10**6])),epochs=int(rng.choice([30,60,100,200,300])),stop=str(rng.choice(['no','no','early'])),
      one=bool(k==2 and rng.random()<.5))
    if kind=='pos': cfg['one']=k==2
    if os.environ.get('TYPICAL'):
        cfg.update(width=int(rng.choice([16,32,50])),depth=2,act='relu',norm=str(rng.choice(['no','no','bn'])),drop=float(rng.choice([0,0,.2])),decay=float(rng.choice([0,1e-4,1e-3,1e-2])),adamw=False,opt='adam',lr=float(rng.choice([1e-3,3e-3])),batch=int(rng.choice([32,64])),epochs=int(rng.choice([60,100,150])),stop=str(rng.choice(['no','early'])))
    if cfg['opt']=='lbfgs' and (cfg['norm']=='bn' or cfg['drop']): cfg['opt']='adam'
    if cfg['opt']=='sgd': cfg['lr']*=10
    par={}
    n=len(y); cnt=np.bincount(y,minlength=k)
    real=kind
    if kind in('weight','pos','over','under'):
        if rng.random()<.6: w=n/(k*cnt)          # balanced
        else:
            w=np.ones(k); w[np.argmin(cnt)]=rng.uniform(2,6)
        par['w']=w.tolist(); par['pos']=kind=='pos'
        real='weight' if kind in('weight','pos') else kind
    if kind=='focal':
        par['gamma']=float(rng.choice([1,2,2,2,3,5]))
        if rng.random()<.3: par['alpha']=[.75]+[.25]*(k-1) if k==2 else (n/(k*cnt)).tolist()
    if kind=='smooth': par['eps']=float(rng.choice([.05,.1,.1,.1,.2]))
    cfg['par']=par
    d=x.shape[1]
    net=Net(d,1 if cfg['one'] else k,cfg['width'],cfg['depth'],cfg['act'],cfg['norm']=='bn',cfg['drop'],cfg['norm']=='ln')
    X=torch.tensor(x,dtype=torch.float32); Y=torch.tensor(y)
    fit=np.arange(n); val=None
    if cfg['stop']=='early':
        val=fit[:n//5]; fit=fit[n//5:]
    both=rng.random()<.5
    given=np.arange(n) if val is None or both else fit
    cfg['given_val']=bool(val is not None and both)
    cls=torch.optim.AdamW if cfg['adamw'] else torch.optim.Adam
    if cfg['opt']=='sgd': opt=torch.optim.SGD(net.parameters(),lr=cfg['lr'],momentum=.9,weight_decay=cfg['decay'])
    elif cfg['opt']=='adam': opt=cls(net.parameters(),lr=cfg['lr'],weight_decay=cfg['decay'])
    best,state,bad=1e9,None,0
    prob=None
    if real=='over':
        wr=np.array(par['w'])[y[fit]]; prob=wr/wr.sum()
    if real=='under':
        m=np.array(par['w'])[y[fit]]; sel=rng.random(len(fit))<m/m.max(); fit=fit[sel]
    if cfg['opt']=='lbfgs':
        idx=fit if prob is None else rng.choice(fit,len(fit),p=prob)
        o=torch.optim.LBFGS(net.parameters(),max_iter=cfg['epochs'],line_search_fn='strong_wolfe')
        def clo():
            o.zero_grad(); l=loss(real,net(X[idx]),Y[idx],par,k)+.5*cfg['decay']*sum((q**2).sum() for q in net.parameters()); l.backward(); return l
        o.step(clo)
    else:
        for ep in range(cfg['epochs']):
            net.train()
            idx=rng.permutation(fit) if prob is None else rng.choice(fit,len(fit),p=prob)
            for i in range(0,len(idx),cfg['batch']):
                j=idx[i:i+cfg['batch']]
                if len(j)<2: continue
                opt.zero_grad(); loss(real,net(X[j]),Y[j],par,k).backward(); opt.step()
            if val is not None:
                net.eval()
                with torch.no_grad(): v=float(loss(real,net(X[val]),Y[val],par,k))
                if v<best-1e-4: best,bad,state=v,0,{q:t.clone() for q,t in net.state_dict().items()}
                else:
                    bad+=1
                    if bad>=10: break
        if state: net.load_state_dict(state)
    net.eval()
    base=f'{out}/{seed}-{kind}'
    torch.onnx.export(net,X[:2],base+'.onnx',input_names=['x'],output_names=['f'],dynamic_axes={'x':{0:'n'},'f':{0:'n'}})
    for end,a,t in('.csv',x[given],y[given]),('.test.csv',xt,yt):
        with open(base+end,'w') as fh:
            fh.write(','.join('x%d'%i for i in range(d))+',t\n')
            for u,v in zip(a,t): fh.write(','.join('%.6g'%w for w in u)+',%d\n'%v)
    json.dump(cfg,open(base+'.json','w'))
out,a,b=sys.argv[1],int(sys.argv[2]),int(sys.argv[3])
os.makedirs(out,exist_ok=True)
kinds=sys.argv[4].split(',')
for s in range(a,b):
    for kd in kinds:
        if os.path.exists(f'{out}/{s}-{kd}.json'): continue
        try: train(s,kd,out)
        except Exception as e: print(s,kd,repr(e),flush=True)
