------------------------------- MODULE Ticks -------------------------------
(* One start per tick (R12 of docs/design.md): the claims of a job, made in  *)
(* two rounds under the fencing token of the job's lock, and the stores that *)
(* replace a claim when its run has ended or never began.                    *)
(*                                                                          *)
(* Source of the two rounds: L. Lamport, Paxos Made Simple (2001), 2.2. A    *)
(* claim that may have been chosen is not proposed again; its tick counts.   *)
EXTENDS Integers, FiniteSets, TLC

CONSTANTS
    Nodes,  \* the voters
    Tokens  \* 1..n: one attempt for each, by any replica

Quorums == {Q \in SUBSET Nodes : 2 * Cardinality(Q) > Cardinality(Nodes)}
Max(S) == CHOOSE x \in S : \A y \in S : y <= x
(* A claim: its token, the tick, the tick before it, and which store of the  *)
(* token it is: 0 for the claim, 1 for what replaces it.                     *)
NoClaim == [token |-> 0, tick |-> 0, before |-> 0, store |-> 0]

VARIABLES
    promised, \* promised[n]: no claim with a smaller token is accepted
    claim,    \* claim[n]: the claim that the node stores
    answers,  \* promises: token, node, and the claim stored then
    sent,     \* claims that were sent to all nodes
    accepted, \* <<claim, node>> for each store
    started   \* the tokens whose runs were started

vars == <<promised, claim, answers, sent, accepted, started>>

Init ==
    /\ promised = [n \in Nodes |-> 0]
    /\ claim = [n \in Nodes |-> NoClaim]
    /\ answers = {}
    /\ sent = {}
    /\ accepted = {}
    /\ started = {}

Promise(t, n) ==
    /\ promised[n] <= t
    /\ promised' = [promised EXCEPT ![n] = t]
    /\ answers' = answers \cup {[token |-> t, node |-> n, claim |-> claim[n]]}
    /\ UNCHANGED <<claim, sent, accepted, started>>

(* The latest run by what the nodes Q promised to t: the claim with the greatest *)
(* token, its last store, if a quorum stores that token or still may;        *)
(* otherwise the run that it names as the one before it.                     *)
Latest(t, Q, claims) ==
    LET top == Max({c.token : c \in claims})
        same == {c \in claims : c.token = top}
        last == CHOOSE c \in same : \A d \in same : d.store <= c.store
        silent == Nodes \ Q
        Storing(of) == {a.node : a \in {b \in answers :
            b.token = t /\ b.node \in Q /\ b.claim.token = of}}
    IN IF top = 0 THEN 0
       ELSE IF Storing(top) \cup silent \in Quorums THEN last.tick ELSE last.before

Claim(t) ==
    /\ \A c \in sent : c.token # t
    /\ \E Q \in Quorums :
         /\ \A n \in Q : \E a \in answers : a.token = t /\ a.node = n
         /\ LET told == {a.claim : a \in {b \in answers : b.token = t /\ b.node \in Q}}
                latest == Latest(t, Q, told)
            IN sent' = sent \cup
                 {[token |-> t, tick |-> latest + 1, before |-> latest, store |-> 0]}
    /\ UNCHANGED <<promised, claim, answers, accepted, started>>

Accept(c, n) ==
    /\ c \in sent
    /\ promised[n] <= c.token
    /\ ~(claim[n].token = c.token /\ claim[n].store > c.store)
    /\ promised' = [promised EXCEPT ![n] = c.token]
    /\ claim' = [claim EXCEPT ![n] = c]
    /\ accepted' = accepted \cup {<<c, n>>}
    /\ UNCHANGED <<answers, sent, started>>

Chosen(c) == {n \in Nodes : <<c, n>> \in accepted} \in Quorums

(* The run starts only when a quorum has accepted its claim. *)
StartRun(c) ==
    /\ c \in sent /\ c.store = 0 /\ Chosen(c)
    /\ \A d \in sent : d.token = c.token => d.store = 0
    /\ started' = started \cup {c.token}
    /\ sent' = sent \cup {[c EXCEPT !.store = 1]}
    /\ UNCHANGED <<promised, claim, answers, accepted>>

(* A claim under which nothing was started is taken back. *)
TakeBack(c) ==
    /\ c \in sent /\ c.store = 0 /\ Chosen(c)
    /\ \A d \in sent : d.token = c.token => d.store = 0
    /\ sent' = sent \cup {[c EXCEPT !.store = 1, !.tick = c.before]}
    /\ UNCHANGED <<promised, claim, answers, accepted, started>>

Next ==
    \/ \E t \in Tokens, n \in Nodes : Promise(t, n)
    \/ \E t \in Tokens : Claim(t)
    \/ \E c \in sent, n \in Nodes : Accept(c, n)
    \/ \E c \in sent : StartRun(c) \/ TakeBack(c)

Spec == Init /\ [][Next]_vars

TickOf(t) == (CHOOSE c \in sent : c.token = t /\ c.store = 0).tick

OneStartPerTick ==
    \A t, u \in started : t # u => TickOf(t) # TickOf(u)
(* Names are alike: TLC visits one of each group of states. *)
Symmetry == Permutations(Nodes)
=============================================================================
