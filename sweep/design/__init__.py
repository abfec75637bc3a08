"""What one design asks for: the tasks that its row follows from, costs that several need, and the row itself.

Studies, searches, forecasts and the run come in here. Start with ``workload.py``.
"""
