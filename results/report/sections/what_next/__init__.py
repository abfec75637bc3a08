"""What would change the answer, and what to do now.

``sensitivity.py`` asks which designs stay on the front when a part's energy is another one;
``next_steps.py`` names the commands worth running, ``failures.py`` what has no answer and why. ``run.py``
says where the numbers are from, so that they can be had again.
"""
